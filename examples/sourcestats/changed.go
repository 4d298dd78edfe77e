package sourcestats

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// Changed looks for why a completed tree and a walk disagree: it compares each file of the folder at path with the
// result of its job, in the order of the tree, and says what is the matter with the first that is not as its job
// saw it. The answer is empty if there is none. It reads every file again, and every job.
func Changed(ctx context.Context, st *store.Store, root tree.ID, path string) (string, error) {
	path, err := absolute(path)
	if err != nil {
		return "", err
	}
	c := comparer{store: st, root: root, path: path}
	return c.folder(ctx, root, ".")
}

type comparer struct {
	store *store.Store
	root  tree.ID
	path  string
}

func (c *comparer) folder(ctx context.Context, id tree.ID, path string) (string, error) {
	seen := map[string]bool{}
	last := ""
	var after tree.ID
	for {
		kids, next, err := c.store.Children(ctx, c.root, id, after, store.MaxPage)
		if err != nil {
			return "", err
		}
		for _, kid := range kids {
			seen[kid.ChildKey], last = true, kid.ChildKey
			said, err := c.child(ctx, kid, filepath.Join(path, kid.ChildKey))
			if said != "" || err != nil {
				return said, err
			}
		}
		if next == 0 {
			return c.added(path, seen, last)
		}
		after = next
	}
}

func (c *comparer) child(ctx context.Context, kid store.ChildRow, path string) (string, error) {
	if kid.Kind == (FolderArgs{}).Kind() {
		return c.folder(ctx, kid.ID, path)
	}
	job, err := c.store.Job(ctx, kid.ID)
	if err != nil {
		return "", err
	}
	var then FileStats
	if err := json.Unmarshal(job.Result, &then); err != nil {
		return "", fmt.Errorf("result of job %d: %w", job.ID, err)
	}
	full := filepath.Join(c.path, path)
	now, err := Measure(full)
	switch {
	case os.IsNotExist(err):
		return full + " is gone: its job had read it", nil
	case err != nil:
		return fmt.Sprintf("%s cannot be read any more: %v", full, err), nil
	case now != then:
		return fmt.Sprintf("%s has changed since its job read it (%d bytes then, %d now)", full, then.Bytes, now.Bytes), nil
	}
	return "", nil
}

// added looks for entries of a folder that no job was made for. What comes behind the last child may have been left
// out by a limit.
func (c *comparer) added(path string, seen map[string]bool, last string) (string, error) {
	full := filepath.Join(c.path, path)
	entries, err := list(full)
	if os.IsNotExist(err) {
		return full + " is gone: it was there when the jobs were made", nil
	}
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if !seen[e.Name()] && e.Name() < last {
			return filepath.Join(full, e.Name()) + " is new: it was not there when the jobs were made", nil
		}
	}
	return "", nil
}
