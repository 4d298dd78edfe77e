package cleanupjournal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/coppicehq/coppice/engine"
)

// Cleanup is the journal's entry: what is to be done once the album is gone, decided before it goes. It is data, so that the
// job needs to look nothing up that is not there any more.
type Cleanup struct {
	Album   string   `json:"album"`
	Effects []Effect `json:"effects"` // in this order; each may be repeated
}

// Kind names the job.
func (Cleanup) Kind() string { return "cleanupjournal.cleanup" }

// Effect is one step: a file, or an empty folder, that is to be gone, by its path below the library's folder.
type Effect struct {
	Remove string `json:"remove"`
}

// plan lists what there is of an album on disk, children before their folders.
func (l *Library) plan(album string) (Cleanup, error) {
	c := Cleanup{Album: album}
	err := filepath.WalkDir(filepath.Join(l.Folder, album), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(l.Folder, path)
		c.Effects = append(c.Effects, Effect{Remove: filepath.ToSlash(below)})
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // a row without files needs no cleanup, and gets one that does nothing
	}
	slices.Reverse(c.Effects)
	return c, err
}

// apply does what is left to do. What is gone already is done: a step that is repeated does no harm.
func (l *Library) apply(c Cleanup) (removed int, err error) {
	for _, e := range c.Effects {
		if !filepath.IsLocal(e.Remove) {
			return removed, engine.Fatal(fmt.Errorf("%q is outside of the library", e.Remove))
		}
		switch err := os.Remove(filepath.Join(l.Folder, filepath.FromSlash(e.Remove))); {
		case err == nil:
			removed++
		case !errors.Is(err, fs.ErrNotExist):
			return removed, err
		}
	}
	return removed, nil
}

// Register registers the cleanup's handler. Its guard skips a cleanup that the world has overtaken: an album of that name is there
// again, and the files are its own now.
func (l *Library) Register(reg *engine.Registry) error {
	return engine.Work(reg, func(_ context.Context, job *engine.Job[Cleanup]) (int, error) {
		return l.apply(job.Args)
	}, engine.Guard(func(ctx context.Context, job *engine.Job[Cleanup]) (string, error) {
		there, err := l.Has(ctx, job.Args.Album)
		if err != nil || !there {
			return "", err
		}
		return "album " + job.Args.Album + " is there again", nil
	}))
}
