//go:build !linux && !darwin

package pglocal

// totalMemory is not known here.
func totalMemory() uint64 { return 0 }
