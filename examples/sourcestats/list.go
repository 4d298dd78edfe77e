package sourcestats

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// list returns the files and folders in a folder, in the order of their names, without what does not count.
func list(folder string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(folder) // sorted by name
	if err != nil {
		return nil, err
	}
	kept := entries[:0]
	for _, e := range entries {
		if !e.IsDir() && !e.Type().IsRegular() {
			continue
		}
		if !utf8.ValidString(e.Name()) {
			return nil, fmt.Errorf("the name of %q is not valid UTF-8, so no job can carry it", filepath.Join(folder, e.Name()))
		}
		kept = append(kept, e)
	}
	return kept, nil
}

// absolute returns the absolute path of a root, and an error if it is no folder. Workers may run in another
// folder than the program that inserts the jobs.
func absolute(root string) (string, error) {
	info, err := os.Stat(root) // follows: a root that is a link is what the caller asked for
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is no folder", root)
	}
	return filepath.Abs(root)
}

// quota is how many files may still be taken; negative: any number.
type quota int

// newQuota reads a limit as callers give it, where zero means all.
func newQuota(files int) quota {
	if files <= 0 {
		return -1
	}
	return quota(files)
}

// spent reports whether the walk ends here.
func (q *quota) spent() bool { return *q == 0 }

// take uses one up.
func (q *quota) take() {
	if *q > 0 {
		*q--
	}
}
