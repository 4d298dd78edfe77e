package pglocal

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// totalMemory is the machine's memory, or what the container may have of it, in
// bytes; zero when it is not known.
func totalMemory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	total := info.Totalram * uint64(info.Unit)
	text, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return total
	}
	limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return total // "max": no limit
	}
	return min(total, limit)
}
