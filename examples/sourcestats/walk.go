package sourcestats

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Walk measures the folder at root by plain recursion, in this goroutine. With a positive files it ends with
// so many files; folders that come after the last do not count.
//
// It is the yardstick for the tree of jobs, so it adds up in its own way and not with a [Rollup]: totals are
// taken from one list of all the folders, which is sorted once.
func Walk(root string, files int) (FolderStats, error) {
	root, err := absolute(root)
	if err != nil {
		return FolderStats{}, err
	}
	w := walker{root: root, left: newQuota(files)}
	sum, err := w.folder(".")
	if err != nil {
		return FolderStats{}, err
	}
	total := FolderStats{Folders: int64(len(w.folders)), Sum: sum}
	for _, f := range w.folders {
		total.Files += f.Files
		total.Bytes += f.Bytes
		total.Lines += f.Lines
		total.CommentLines += f.CommentLines
	}
	slices.SortFunc(w.folders, larger)
	total.Largest = slices.Clone(w.folders[:min(len(w.folders), LargestFolders)])
	return total, nil
}

type walker struct {
	root    string
	left    quota
	folders []FolderSize
}

// folder walks the folder at path and returns its sum.
func (w *walker) folder(path string) (Sum, error) {
	entries, err := list(filepath.Join(w.root, path))
	if err != nil {
		return Sum{}, err
	}
	size := FolderSize{Path: filepath.ToSlash(path)}
	var children strings.Builder
	for _, e := range entries {
		if w.left.spent() {
			break
		}
		below := filepath.Join(path, e.Name())
		if e.IsDir() {
			sum, err := w.folder(below)
			if err != nil {
				return Sum{}, err
			}
			fmt.Fprintf(&children, "folder %q %s\n", e.Name(), sum)
			continue
		}
		w.left.take()
		file, err := Measure(filepath.Join(w.root, below))
		if err != nil {
			return Sum{}, err
		}
		fmt.Fprintf(&children, "file %q %s\n", e.Name(), file.Sum)
		size.Files++
		size.Bytes += file.Bytes
		size.Lines += file.Lines
		size.CommentLines += file.CommentLines
	}
	w.folders = append(w.folders, size)
	return sha256.Sum256([]byte(children.String())), nil
}
