package sourcestats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// RunConfig says what to count and who wants to know.
type RunConfig struct {
	Root  string // the folder to count
	Files int    // the first so many files; 0: all
	// Inserted is told the root's id once the tree is inserted; nil: nobody is told.
	Inserted func(id tree.ID, counts Counts)
	// Progress is told several times a second how many jobs have completed; nil: nobody is told.
	Progress func(completed int64)
}

// lookEvery is how often Run looks at the tree.
const lookEvery = 200 * time.Millisecond

// Run inserts the tree of a folder, works on it with a worker of its own until the root completes, and returns
// the root's result. It fails if a job dies, since the root would then wait for a person, or when ctx
// ends; what was inserted stays, and any other worker with the same handlers may go on with it.
func Run(ctx context.Context, client *engine.Client, config RunConfig) (report Report, err error) {
	node, counts, err := Tree(config.Root, config.Files)
	if err != nil {
		return Report{}, err
	}
	receipt, err := client.Insert(ctx, node)
	if err != nil {
		return Report{}, err
	}
	if config.Inserted != nil {
		config.Inserted(receipt.ID, counts)
	}
	reg := engine.NewRegistry()
	if err := Register(reg); err != nil {
		return Report{}, err
	}
	worker, err := engine.NewWorker(client, reg, engine.WorkerConfig{Name: "sourcestats"})
	if err != nil {
		return Report{}, err
	}
	if err := worker.Start(ctx); err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, worker.Stop(context.WithoutCancel(ctx))) }()
	job, err := await(ctx, client.Store(), receipt.ID, config.Progress)
	if err != nil {
		return Report{}, err
	}
	report.Root = config.Root
	if err := json.Unmarshal(job.Result, &report.FolderStats); err != nil {
		return Report{}, fmt.Errorf("result of job %d: %w", job.ID, err)
	}
	return report, nil
}

// await looks at the tree until its root has completed.
func await(ctx context.Context, st *store.Store, root tree.ID, progress func(int64)) (*store.JobRow, error) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		counts, err := st.TreeCounts(ctx, root)
		if err != nil {
			return nil, err
		}
		if n := counts.States[tree.Dead]; n > 0 {
			return nil, fmt.Errorf("%d jobs died: coppice tree show %d", n, root)
		}
		if progress != nil {
			progress(counts.States[tree.Completed])
		}
		job, err := st.Job(ctx, root)
		switch {
		case err != nil:
			return nil, err
		case job.State == tree.Completed:
			return job, nil
		case !job.State.Live():
			return nil, fmt.Errorf("the tree ended as %s: coppice tree show %d", job.State, root)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-look.C:
		}
	}
}
