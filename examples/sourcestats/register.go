package sourcestats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/coppicehq/coppice/engine"
)

// Register gives the engine the handlers of files and folders.
func Register(reg *engine.Registry) error {
	return errors.Join(engine.Work(reg, measureFile), engine.Finalize(reg, addUpFolder))
}

func measureFile(_ context.Context, job *engine.Job[FileArgs]) (FileStats, error) {
	stats, err := Measure(filepath.Join(job.Args.Root, filepath.FromSlash(job.Args.Path)))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return stats, engine.Fatal(err) // trying again helps neither
	}
	return stats, err
}

// addUpFolder reads its children's results through a cursor, a page at a time. They come in child order, which
// is the order of names, and are of two types: the kind says which.
func addUpFolder(ctx context.Context, job *engine.Job[FolderArgs], kids *engine.Children) (FolderStats, error) {
	rollup := NewRollup(job.Args.Path)
	for kid, err := range engine.Results[json.RawMessage](ctx, kids) {
		if err != nil {
			return FolderStats{}, err
		}
		if err := addChild(rollup, kid); err != nil {
			return FolderStats{}, engine.Fatal(err)
		}
	}
	rollup.AddMissing(kids.Dead + kids.Cancelled + kids.Removed)
	return rollup.Stats(), nil
}

func addChild(rollup *Rollup, kid engine.Result[json.RawMessage]) error {
	switch kid.Kind {
	case FileArgs{}.Kind():
		var file FileStats
		if err := json.Unmarshal(kid.Value, &file); err != nil {
			return fmt.Errorf("result of file %q: %w", kid.Key, err)
		}
		rollup.AddFile(kid.Key, file)
	case FolderArgs{}.Kind():
		var folder FolderStats
		if err := json.Unmarshal(kid.Value, &folder); err != nil {
			return fmt.Errorf("result of folder %q: %w", kid.Key, err)
		}
		rollup.AddFolder(kid.Key, folder)
	default:
		return fmt.Errorf("child %q is of kind %q, which is neither a file nor a folder", kid.Key, kid.Kind)
	}
	return nil
}
