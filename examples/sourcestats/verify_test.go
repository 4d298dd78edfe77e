package sourcestats_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/examples/sourcestats"
)

func TestVerifyNamesEachKindOfDifference(t *testing.T) {
	t.Parallel()
	root := sample(t)
	want, err := sourcestats.Walk(root, 0)
	require.NoError(t, err)
	require.NoError(t, sourcestats.Verify(want, want))
	for says, change := range map[string]func(*sourcestats.FolderStats){
		"missing jobs differ: 1, want 0":          func(s *sourcestats.FolderStats) { s.Missing++ },
		"files differ: 6, want 5":                 func(s *sourcestats.FolderStats) { s.Files++ },
		"folders differ: 4, want 5":               func(s *sourcestats.FolderStats) { s.Folders-- },
		"bytes differ":                            func(s *sourcestats.FolderStats) { s.Bytes++ },
		"lines differ":                            func(s *sourcestats.FolderStats) { s.Lines++ },
		"comment lines differ":                    func(s *sourcestats.FolderStats) { s.CommentLines++ },
		"largest folders differ: 4, want 5":       func(s *sourcestats.FolderStats) { s.Largest = s.Largest[:4] },
		"number 2 of the largest folders differs": func(s *sourcestats.FolderStats) { s.Largest[1].Path = "b" },
		"the sums differ":                         func(s *sourcestats.FolderStats) { s.Sum[0]++ },
	} {
		got, err := sourcestats.Walk(root, 0)
		require.NoError(t, err)
		change(&got)
		require.ErrorContains(t, sourcestats.Verify(got, want), says)
	}
}

func TestRollupNoticesTheOrderOfChildren(t *testing.T) {
	t.Parallel()
	a, b := sourcestats.FileStats{Bytes: 1, Lines: 1}, sourcestats.FileStats{Bytes: 2, Lines: 1}
	inOrder, turned := sourcestats.NewRollup("."), sourcestats.NewRollup(".")
	inOrder.AddFile("a", a)
	inOrder.AddFile("b", b)
	turned.AddFile("b", b)
	turned.AddFile("a", a)
	require.ErrorContains(t, sourcestats.Verify(turned.Stats(), inOrder.Stats()), "another order")
}

func TestRollupCarriesMissingJobsUpAndBoundsTheLargest(t *testing.T) {
	t.Parallel()
	top := sourcestats.NewRollup(".")
	for i := range 50 {
		folder := sourcestats.NewRollup(string(rune('a' + i)))
		folder.AddFile("x", sourcestats.FileStats{Bytes: int64(i)})
		folder.AddMissing(1)
		top.AddFolder(string(rune('a'+i)), folder.Stats())
	}
	got := top.Stats()
	require.Equal(t, int64(50), got.Missing)
	require.Equal(t, int64(51), got.Folders)
	require.Len(t, got.Largest, sourcestats.LargestFolders)
	require.Equal(t, int64(49), got.Largest[0].Bytes)
	require.Equal(t, int64(40), got.Largest[9].Bytes)
}
