//go:build unix

package bench

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// peakMemory is the most that this process has had in memory, in bytes.
func peakMemory() uint64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil || usage.Maxrss < 0 {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return uint64(usage.Maxrss)
	}
	return uint64(usage.Maxrss) << 10
}
