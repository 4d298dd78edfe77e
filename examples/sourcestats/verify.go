package sourcestats

import (
	"fmt"
	"slices"
)

// Verify returns nil if two roll-ups of the same files are equal, and otherwise an error that names the first
// difference, the plainest first: a different number of files explains a different sum, not the other way round.
func Verify(got, want FolderStats) error {
	for _, n := range []struct {
		name      string
		got, want int64
	}{
		{"missing jobs", got.Missing, want.Missing},
		{"files", got.Files, want.Files},
		{"folders", got.Folders, want.Folders},
		{"bytes", got.Bytes, want.Bytes},
		{"lines", got.Lines, want.Lines},
		{"comment lines", got.CommentLines, want.CommentLines},
		{"largest folders", int64(len(got.Largest)), int64(len(want.Largest))},
	} {
		if n.got != n.want {
			return fmt.Errorf("%s differ: %d, want %d", n.name, n.got, n.want)
		}
	}
	if !slices.Equal(got.Largest, want.Largest) {
		for i := range got.Largest {
			if got.Largest[i] != want.Largest[i] {
				return fmt.Errorf("number %d of the largest folders differs: %+v, want %+v", i+1, got.Largest[i], want.Largest[i])
			}
		}
	}
	if got.Sum != want.Sum {
		return fmt.Errorf("the sums differ (%s, want %s): the same files in another order, with other names or other contents",
			got.Sum, want.Sum)
	}
	return nil
}
