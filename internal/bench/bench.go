package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// Options say what to measure.
type Options struct {
	Jobs       int    // in all, trees' roots included; at least 1
	Children   int    // of each tree; 0: jobs stand alone
	MaxRunning int    // handlers at once; 0: engine.DefaultMaxRunning
	Queue      string // "": a queue of its own, "bench"
	KeepNone   bool   // write no history
	// Progress, if set, is told now and then how many jobs have been inserted and how many have run.
	Progress func(inserted, ran int)
}

// Result is what was measured. Seconds and rates are of the drain alone, without the insert.
type Result struct {
	Workload         string  `json:"workload"` // flat or trees
	Jobs             int     `json:"jobs"`
	Trees            int     `json:"trees,omitempty"`
	Children         int     `json:"children,omitempty"`
	InsertSeconds    float64 `json:"insert_seconds"`
	InsertsPerSecond float64 `json:"inserts_per_second"`
	Seconds          float64 `json:"seconds"`
	JobsPerSecond    float64 `json:"jobs_per_second"`
	MaxRunning       int     `json:"max_running"`
	History          bool    `json:"history"`
	FinalizedKids    int64   `json:"results_read,omitempty"`
}

type noop struct {
	N int `json:"n"`
}

func (noop) Kind() string { return "coppice.bench.noop" }

type parent struct {
	N int `json:"n"`
}

func (parent) Kind() string { return "coppice.bench.parent" }

// insertBatch is how many jobs go in with one insert.
const insertBatch = 5_000

// run counts what the handlers do.
type run struct {
	options Options
	ran     atomic.Int64
	read    atomic.Int64
	all     chan struct{} // closed when everything ran
}

// Run inserts the jobs, then drains them with one worker, and measures both.
func Run(ctx context.Context, client *engine.Client, o Options) (Result, error) {
	if o.Queue == "" {
		o.Queue = "bench"
	}
	if o.MaxRunning == 0 {
		o.MaxRunning = engine.DefaultMaxRunning
	}
	if o.Jobs < 1 || o.Children < 0 {
		return Result{}, fmt.Errorf("jobs must be at least 1 and children at least 0, not %d and %d", o.Jobs, o.Children)
	}
	r := &run{options: o, all: make(chan struct{})}
	result := Result{Workload: "flat", MaxRunning: o.MaxRunning, History: !o.KeepNone, Children: o.Children}
	started := time.Now()
	jobs, trees, err := r.insert(ctx, client)
	if err != nil {
		return Result{}, err
	}
	result.InsertSeconds = time.Since(started).Seconds()
	result.Jobs, result.Trees = jobs, trees
	if trees > 0 {
		result.Workload = "trees"
	}
	result.InsertsPerSecond = float64(jobs) / result.InsertSeconds
	took, err := r.drain(ctx, client, jobs)
	if err != nil {
		return Result{}, err
	}
	result.Seconds, result.JobsPerSecond = took.Seconds(), float64(jobs)/took.Seconds()
	result.FinalizedKids = r.read.Load()
	return result, nil
}

// insert puts the jobs in and says how many they are: trees are whole, so there may be a few more than asked for.
func (r *run) insert(ctx context.Context, client *engine.Client) (jobs, trees int, err error) {
	options := []tree.Option{tree.Queue(r.options.Queue)}
	if r.options.KeepNone {
		options = append(options, tree.KeepFor(0))
	}
	var batch []*tree.Node
	size := 0
	flush := func() error {
		_, err := client.InsertMany(ctx, batch...)
		batch, size = batch[:0], 0
		r.progress(jobs)
		return err
	}
	for jobs < r.options.Jobs {
		node := tree.New(noop{jobs}, options...)
		nodes := 1
		if r.options.Children > 0 {
			node = tree.New(parent{trees}, options...)
			for c := range r.options.Children {
				node.Add(tree.New(noop{c}, options...))
			}
			trees++
			nodes += r.options.Children
		}
		batch = append(batch, node)
		jobs, size = jobs+nodes, size+nodes
		if size >= insertBatch {
			if err := flush(); err != nil {
				return 0, 0, err
			}
		}
	}
	if len(batch) > 0 {
		err = flush()
	}
	return jobs, trees, err
}

func (r *run) progress(inserted int) {
	if r.options.Progress != nil {
		r.options.Progress(inserted, int(r.ran.Load()))
	}
}

func (r *run) drain(ctx context.Context, client *engine.Client, jobs int) (time.Duration, error) {
	reg, err := r.registry(int64(jobs))
	if err != nil {
		return 0, err
	}
	w, err := engine.NewWorker(client, reg, engine.WorkerConfig{
		Queues: map[string]engine.QueueConfig{r.options.Queue: {MaxRunning: r.options.MaxRunning}},
	})
	if err != nil {
		return 0, err
	}
	started := time.Now()
	if err := w.Start(ctx); err != nil {
		return 0, err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-r.all:
			done = true
		case <-tick.C:
			r.progress(jobs)
		case <-ctx.Done():
			_ = w.Stop(context.WithoutCancel(ctx))
			return 0, context.Cause(ctx)
		}
	}
	// The outcomes are part of the work: Stop returns when the last is written.
	if err := w.Stop(ctx); err != nil {
		return 0, err
	}
	r.progress(jobs)
	return time.Since(started), nil
}

func (r *run) registry(jobs int64) (*engine.Registry, error) {
	count := func() {
		if r.ran.Add(1) == jobs {
			close(r.all)
		}
	}
	reg := engine.NewRegistry()
	inTrees := r.options.Children > 0
	err := engine.Work(reg, func(_ context.Context, job *engine.Job[noop]) (*int, error) {
		count()
		if !inTrees {
			return nil, nil
		}
		return &job.Args.N, nil
	})
	if err != nil {
		return nil, err
	}
	err = engine.Finalize(reg, func(ctx context.Context, _ *engine.Job[parent], kids *engine.Children) (int, error) {
		sum := 0
		for kid, err := range engine.Results[int](ctx, kids) {
			if err != nil {
				return 0, err
			}
			sum += kid.Value
			r.read.Add(1)
		}
		count()
		return sum, nil
	})
	return reg, err
}
