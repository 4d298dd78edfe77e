package pglocal

import "golang.org/x/sys/unix"

// totalMemory is the machine's memory in bytes; zero when it is not known.
func totalMemory() uint64 {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return total
}
