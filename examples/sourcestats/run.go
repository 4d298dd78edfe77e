package sourcestats

import (
	"cmp"
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
	Queue string // of the jobs and the worker; "": tree.DefaultQueue
	// Inserted is told the root's id once the tree is inserted; nil: nobody is told.
	Inserted func(id tree.ID, counts Counts)
	// Progress is told several times a second how many jobs have completed; nil: nobody is told.
	Progress func(completed int64)
}

const (
	// lookEvery is how often Run looks at the tree.
	lookEvery = 200 * time.Millisecond
	// grace is what the jobs that run get when Run is interrupted: a file takes milliseconds.
	grace = 2 * time.Second
	// lease is short, so that nobody waits long for the jobs of a run that was killed.
	lease = 10 * time.Second
)

// Run starts a worker, inserts the tree of a folder, waits until the root completes, and returns the root's result.
// It fails if a job dies, with a [*DeadError], since the root would then wait for a person, or when ctx
// ends; what was inserted stays, and [Resume] goes on with it.
func Run(ctx context.Context, client *engine.Client, config RunConfig) (Report, error) {
	queue := cmp.Or(config.Queue, tree.DefaultQueue)
	node, counts, err := Tree(config.Root, config.Files, tree.Queue(queue))
	if err != nil {
		return Report{}, err
	}
	return work(ctx, client, config, queue, func() (tree.ID, error) {
		receipt, err := client.Insert(ctx, node)
		if err == nil && config.Inserted != nil {
			config.Inserted(receipt.ID, counts)
		}
		return receipt.ID, err
	})
}

// Resume goes on with a tree whose Run was interrupted or killed, in the tree's queue, and returns the root's result
// as Run does. Of config it heeds Progress alone. Jobs that a killed worker had come back when its lease is
// over and a reaper has seen it.
func Resume(ctx context.Context, client *engine.Client, root tree.ID, config RunConfig) (Report, error) {
	job, err := client.Store().Job(ctx, root)
	if err != nil {
		return Report{}, err
	}
	if config.Root, config.Files, err = origin(job); err != nil {
		return Report{}, err
	}
	return work(ctx, client, config, job.Queue, func() (tree.ID, error) { return root, nil })
}

// work serves the queue until the tree that begin makes has completed.
func work(
	ctx context.Context, client *engine.Client, config RunConfig, queue string, begin func() (tree.ID, error),
) (report Report, err error) {
	reg := engine.NewRegistry()
	if err := Register(reg); err != nil {
		return Report{}, err
	}
	worker, err := engine.NewWorker(client, reg, engine.WorkerConfig{
		Name: "sourcestats", Queues: map[string]engine.QueueConfig{queue: {}}, Lease: lease, Grace: grace,
	})
	if err != nil {
		return Report{}, err
	}
	if err := worker.Start(ctx); err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, worker.Stop(context.WithoutCancel(ctx))) }()
	root, err := begin()
	if err != nil {
		return Report{}, err
	}
	job, err := await(ctx, client.Store(), root, config.Progress)
	if err != nil {
		return Report{}, err
	}
	report.Root, report.Limit = config.Root, config.Files
	if err := json.Unmarshal(job.Result, &report.FolderStats); err != nil {
		return Report{}, fmt.Errorf("result of job %d: %w", job.ID, err)
	}
	return report, nil
}

// DeadError says that jobs of the tree died, and why the first of them did.
type DeadError struct {
	Jobs   int64   // dead ones, so far
	First  tree.ID // of them
	Reason string  // what First died of; it names the file
	Root   tree.ID
}

func (e *DeadError) Error() string {
	text := fmt.Sprintf("job %d died: %s", e.First, e.Reason)
	if e.Jobs > 1 {
		text = fmt.Sprintf("%d jobs died, the first of them %s", e.Jobs, text)
	}
	return text + fmt.Sprintf(" (coppice tree show %d)", e.Root)
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
		if counts.States[tree.Dead] > 0 {
			return nil, died(ctx, st, root)
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

// died returns the error about a tree with dead jobs.
func died(ctx context.Context, st *store.Store, root tree.ID) error {
	tally, err := st.TreeTally(ctx, root)
	if err != nil {
		return err
	}
	job, err := st.Job(ctx, tally.FirstDead)
	if err != nil {
		return err
	}
	return &DeadError{Jobs: tally.Dead, First: job.ID, Reason: job.Error, Root: root}
}
