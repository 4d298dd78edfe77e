package sourcestats

import (
	"cmp"
	"slices"
)

// FolderStats is the roll-up of a folder with all that is below it.
type FolderStats struct {
	Files        int64        `json:"files"`             // regular files
	Folders      int64        `json:"folders"`           // itself included
	Bytes        int64        `json:"bytes"`             // of all files
	Lines        int64        `json:"lines"`             // of all files
	CommentLines int64        `json:"comment_lines"`     // of all files
	Missing      int64        `json:"missing,omitempty"` // jobs below it that ended without a result
	Largest      []FolderSize `json:"largest"`           // at most LargestFolders
	Sum          Sum          `json:"sha256"`            // of the children's names and sums, in the order of names
}

// FolderSize is one folder by itself: only the files that are directly in it, so that a folder does not
// outrank all others for being their parent.
type FolderSize struct {
	Path         string `json:"path"`          // from the root, with slashes; "." for the root
	Files        int64  `json:"files"`         // directly in it
	Bytes        int64  `json:"bytes"`         // of those files
	Lines        int64  `json:"lines"`         // of those files
	CommentLines int64  `json:"comment_lines"` // of those files
}

// LargestFolders is how many of the largest folders a roll-up names.
const LargestFolders = 10

// larger sorts by bytes, the largest first, and folders of one size by path.
func larger(a, b FolderSize) int {
	return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Path, b.Path))
}

// mergeLargest returns the largest folders of both lists, which are sorted. It is what keeps the size of a
// result the same from the leaves up to the root.
func mergeLargest(a, b []FolderSize) []FolderSize {
	all := slices.Concat(a, b)
	slices.SortFunc(all, larger)
	return all[:min(len(all), LargestFolders)]
}
