package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNumbersAreWrittenForPeople(t *testing.T) {
	t.Parallel()
	require.Equal(t, "0", count(0))
	require.Equal(t, "999", count(999))
	require.Equal(t, "1,000", count(1_000))
	require.Equal(t, "-123,456", count(-123_456))
	require.Equal(t, "1,234,567", count(1_234_567))
	require.Equal(t, "1023 B", size(1023))
	require.Equal(t, "1.5 KiB", size(1536))
	require.Equal(t, "2.0 GiB", size(2<<30))
	require.Equal(t, "1 child", plural(1, "child", "children"))
	require.Equal(t, "2,000 children", plural(2000, "child", "children"))
}

func TestDurationsShowTheTwoLargestUnits(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s":     0,
		"<1ms":   time.Microsecond,
		"12ms":   12*time.Millisecond + 999,
		"59.9s":  59*time.Second + 999*time.Millisecond,
		"1m00s":  time.Minute,
		"1h01m":  61*time.Minute + 59*time.Second,
		"2d03h":  51 * time.Hour,
		"-1m30s": -90 * time.Second,
	} {
		require.Equal(t, want, duration(d))
	}
}

func TestOneLineCannotActUponATerminal(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a b\ufffd[2Jc", oneLine("a\nb\x1b[2Jc", 100))
	require.Equal(t, "äöü", oneLine("äöü", 3))
	require.Equal(t, "ä…", oneLine("äöü", 2))
}
