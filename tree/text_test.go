package tree_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

func TestCleanTextLeavesStorableTextAlone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", "木\n\t😀", "\uFFFD", strings.Repeat("x", 100)} {
		require.Equal(t, text, tree.CleanText(text, 100))
	}
}

func TestCleanTextMakesAnythingStorable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\x00b":       "a␀b",
		"a\xff\xfeb":   "a\uFFFDb",
		"\xed\xa0\x80": "\uFFFD",
		"\x00\xff\x00": "␀\uFFFD␀",
		"\xe6\x9c":     "\uFFFD",
	} {
		require.Equal(t, want, tree.CleanText(text, 100))
	}
}

func TestCleanTextCutsTheMiddleOut(t *testing.T) {
	t.Parallel()
	long := "first cause: " + strings.Repeat("木", 10_000_000/3) + ": last cause"
	got := tree.CleanText(long, tree.MaxErrorBytes)
	require.LessOrEqual(t, len(got), tree.MaxErrorBytes)
	require.Greater(t, len(got), tree.MaxErrorBytes-10)
	require.True(t, strings.HasPrefix(got, "first cause"))
	require.True(t, strings.HasSuffix(got, "last cause"))
	require.Equal(t, 1, strings.Count(got, "[...]"))
	require.True(t, utf8.ValidString(got))
}

func TestTextThatGrowsWhenCleanedStaysWithinTheLimit(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("\x00", 1000), strings.Repeat("a\xff", 500), strings.Repeat("\x80", 5000)} {
		for _, limit := range []int{0, 1, 2, 3, 7, 8, 100, 999, 1000} {
			got := tree.CleanText(text, limit)
			require.LessOrEqual(t, len(got), limit)
			require.True(t, utf8.ValidString(got))
		}
	}
}

func TestClipCutsBetweenRunes(t *testing.T) {
	t.Parallel()
	require.Equal(t, "木", tree.Clip("木木", 5))
	require.Equal(t, "木木", tree.Clip("木木", 6))
	require.Empty(t, tree.Clip("木", 2))
	require.Empty(t, tree.Clip("\x80\x80", 1))
	require.Empty(t, tree.Clip("a", 0))
}
