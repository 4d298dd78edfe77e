//go:build !unix

package bench

// peakMemory is not known here.
func peakMemory() uint64 { return 0 }
