package sourcestats

import (
	"crypto/sha256"
	"fmt"
	"hash"
)

// Rollup adds up the children of one folder as they come, one at a time. It needs the same memory for ten
// children as for a million.
type Rollup struct {
	own   FolderSize
	total FolderStats
	hash  hash.Hash
}

// NewRollup starts the roll-up of the folder at path, which is written as in [FolderSize].
func NewRollup(path string) *Rollup {
	return &Rollup{own: FolderSize{Path: path}, total: FolderStats{Folders: 1}, hash: sha256.New()}
}

// AddFile adds a file of the folder. Children, files and folders alike, are to come in the order of their
// names: the sum depends on it.
func (r *Rollup) AddFile(name string, s FileStats) {
	r.own.Files++
	r.own.Bytes += s.Bytes
	r.own.Lines += s.Lines
	r.own.CommentLines += s.CommentLines
	r.total.Files++
	r.total.Bytes += s.Bytes
	r.total.Lines += s.Lines
	r.total.CommentLines += s.CommentLines
	r.child("file", name, s.Sum)
}

// AddFolder adds a folder of the folder, in the order of names as for AddFile.
func (r *Rollup) AddFolder(name string, s FolderStats) {
	r.total.Files += s.Files
	r.total.Folders += s.Folders
	r.total.Bytes += s.Bytes
	r.total.Lines += s.Lines
	r.total.CommentLines += s.CommentLines
	r.total.Missing += s.Missing
	r.total.Largest = mergeLargest(r.total.Largest, s.Largest)
	r.child("folder", name, s.Sum)
}

// AddMissing counts n children that ended without a result.
func (r *Rollup) AddMissing(n int) { r.total.Missing += int64(n) }

// child quotes the name, since a name may hold whatever could stand between two children.
func (r *Rollup) child(what, name string, sum Sum) {
	fmt.Fprintf(r.hash, "%s %q %s\n", what, name, sum) // a hash never fails to write
}

// Stats returns the roll-up of what was added so far.
func (r *Rollup) Stats() FolderStats {
	total := r.total
	total.Largest = mergeLargest(total.Largest, []FolderSize{r.own})
	total.Sum = Sum(r.hash.Sum(nil))
	return total
}
