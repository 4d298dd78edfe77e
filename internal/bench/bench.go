package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// MaxJobs is the most that one run takes: enough for any machine, and it ends some time.
const MaxJobs = 10_000_000

// MaxChildren is the most children of one tree.
const MaxChildren = 100_000

// Options say what to measure.
type Options struct {
	Jobs       int    // in all, trees' roots included; 1 to MaxJobs
	Children   int    // of each tree, up to MaxChildren; 0: jobs stand alone
	Stream     bool   // all jobs but one are children of that one, streamed in while a worker runs them
	Groups     int    // jobs that stand alone are of so many groups, up to MaxChildren; 0: of none
	MaxRunning int    // handlers at once; 0: engine.DefaultMaxRunning
	Queue      string // "": a queue of its own, "bench"
	KeepNone   bool   // write no history
	// Progress, if set, is told now and then how many jobs have been inserted and how many have run.
	Progress func(inserted, ran int)
}

// Check says what is wrong with the options; nil: nothing.
func (o Options) Check() error {
	switch {
	case o.Jobs < 1 || o.Jobs > MaxJobs:
		return fmt.Errorf("the number of jobs is %d, outside 1 to %d", o.Jobs, MaxJobs)
	case o.Stream && (o.Children != 0 || o.Jobs < 2):
		return fmt.Errorf("a stream is of 2 jobs or more, all of them in one tree")
	case o.Children < 0 || o.Children > MaxChildren:
		return fmt.Errorf("the number of children is %d, outside 0 to %d", o.Children, MaxChildren)
	case o.Groups < 0 || o.Groups > MaxChildren || o.Groups > 0 && (o.Children > 0 || o.Stream):
		return fmt.Errorf("the number of groups is %d, outside 0 to %d, or of jobs in trees", o.Groups, MaxChildren)
	case o.MaxRunning < 0 || o.MaxRunning > 10_000:
		return fmt.Errorf("the number of handlers at once is %d, outside 0 to 10000", o.MaxRunning)
	}
	return nil
}

// Total is how many jobs a run has: trees are whole, so there may be a few more than Jobs.
func (o Options) Total() int { return o.trees() * (1 + o.Children) }

// trees counts a job that stands alone as a tree of one.
func (o Options) trees() int { return (o.Jobs + o.Children) / (1 + o.Children) }

// children is how many each tree has.
func (o Options) children() int {
	if o.Stream {
		return o.Jobs - 1
	}
	return o.Children
}

// Result is what was measured. Seconds and JobsPerSecond are of the drain alone, which starts with every job
// inserted, and ends when every outcome is committed.
type Result struct {
	Workload         string  `json:"workload"` // flat, trees or stream
	Jobs             int     `json:"jobs"`
	Trees            int     `json:"trees"`    // 0: flat
	Children         int     `json:"children"` // of each tree
	InsertSeconds    float64 `json:"insert_seconds"`
	InsertsPerSecond float64 `json:"inserts_per_second"`
	Seconds          float64 `json:"seconds"`
	JobsPerSecond    float64 `json:"jobs_per_second"`
	Groups           int     `json:"groups"` // 0: none
	MaxRunning       int     `json:"max_running"`
	History          bool    `json:"history"`
	ResultsRead      int64   `json:"results_read"` // by finalizers, of their children
	// PeakMemoryBytes is the most that this process, with client and worker, has had in memory; 0: not known.
	PeakMemoryBytes uint64 `json:"peak_memory_bytes"`
}

// ErrStuck is in the chain of the error about a run of which nothing has ended for a minute.
var ErrStuck = errors.New("no job has ended for a minute")

const (
	// insertBatch is about how many jobs go in with one insert.
	insertBatch = 5_000
	// stuckAfter is how long nothing may end.
	stuckAfter = time.Minute
)

// Run inserts the jobs, then drains them with one worker, and measures both. The queue must be empty, and nobody
// else may serve it. Errors: Options.Check's; [ErrStuck]; whatever keeps the numbers from being true, such as a job
// that ran twice.
func Run(ctx context.Context, client *engine.Client, o Options) (Result, error) {
	if err := o.Check(); err != nil {
		return Result{}, err
	}
	if o.Queue == "" {
		o.Queue = "bench"
	}
	if o.MaxRunning == 0 {
		o.MaxRunning = engine.DefaultMaxRunning
	}
	r := newRun(o)
	result := Result{Workload: "flat", Jobs: r.total, Children: o.Children, Groups: o.Groups, MaxRunning: o.MaxRunning, History: !o.KeepNone}
	if o.Children > 0 {
		result.Workload, result.Trees = "trees", o.trees()
	}
	// The worker makes them too if they are missing: not on the clock.
	if _, err := client.Store().EnsureHistory(ctx); err != nil {
		return Result{}, err
	}
	if o.Stream {
		result.Workload, result.Trees, result.Children = "stream", 1, o.children()
		return r.stream(ctx, client, result)
	}
	started := time.Now()
	if err := r.insert(ctx, client); err != nil {
		return Result{}, err
	}
	took := time.Since(started)
	result.InsertSeconds, result.InsertsPerSecond = took.Seconds(), float64(r.total)/took.Seconds()
	took, err := r.drain(ctx, client)
	if err != nil {
		return Result{}, err
	}
	result.Seconds, result.JobsPerSecond = took.Seconds(), float64(r.total)/took.Seconds()
	result.ResultsRead, result.PeakMemoryBytes = r.read.Load(), peakMemory()
	return result, r.verify(ctx, client.Store())
}

// run is one measurement under way.
type run struct {
	options Options
	total   int
	seen    []atomic.Uint32 // a bit a job: it has run
	ran     atomic.Int64    // bits set
	twice   atomic.Int64    // runs of jobs that had run
	read    atomic.Int64    // results that finalizers have read
	wrong   atomic.Int64    // finalizers that have not read exactly their children's
	all     chan struct{}   // closed when every job has run
}

func newRun(o Options) *run {
	total := o.Total()
	return &run{options: o, total: total, seen: make([]atomic.Uint32, total/32+1), all: make(chan struct{})}
}

// insert puts the jobs in, numbered from 0, each root before its children.
func (r *run) insert(ctx context.Context, client *engine.Client) error {
	options := []tree.Option{tree.Queue(r.options.Queue)}
	if r.options.KeepNone {
		options = append(options, tree.KeepFor(0))
	}
	var batch []*tree.Node
	size, n := 0, 0
	for n < r.total {
		if r.options.Children == 0 {
			batch = append(batch, tree.New(noop{n}, r.grouped(n, options)...))
			n++
			size++
		} else {
			root := tree.New(parent{n}, options...)
			for c := range r.options.Children {
				root.Add(tree.New(noop{n + 1 + c}, options...))
			}
			batch = append(batch, root)
			n += 1 + r.options.Children
			size += 1 + r.options.Children
		}
		if size < insertBatch && n < r.total {
			continue
		}
		if _, err := client.InsertMany(ctx, batch...); err != nil {
			return err
		}
		batch, size = batch[:0], 0
		r.progress(n)
	}
	return nil
}

// grouped adds job n's group, if it is to have one.
func (r *run) grouped(n int, options []tree.Option) []tree.Option {
	if r.options.Groups == 0 {
		return options
	}
	return append(options[:len(options):len(options)], tree.Group(strconv.Itoa(n%r.options.Groups)))
}

func (r *run) progress(inserted int) {
	if r.options.Progress != nil {
		r.options.Progress(inserted, int(r.ran.Load()))
	}
}

// worker makes the one worker of a run.
func (r *run) worker(client *engine.Client) (*engine.Worker, error) {
	reg, err := r.registry()
	if err != nil {
		return nil, err
	}
	return engine.NewWorker(client, reg, engine.WorkerConfig{
		Name: "bench", Queues: map[string]engine.QueueConfig{r.options.Queue: {MaxRunning: r.options.MaxRunning}},
	})
}

func (r *run) drain(ctx context.Context, client *engine.Client) (time.Duration, error) {
	w, err := r.worker(client)
	if err != nil {
		return 0, err
	}
	started := time.Now()
	if err := w.Start(ctx); err != nil {
		return 0, err
	}
	if err := r.await(ctx); err != nil {
		return 0, errors.Join(err, w.Stop(context.WithoutCancel(ctx)))
	}
	// The outcomes are part of the work: Stop returns when the last is written.
	if err := w.Stop(ctx); err != nil {
		return 0, err
	}
	took := time.Since(started)
	r.progress(r.total)
	return took, nil
}

// await returns when every job has run.
func (r *run) await(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last, moved := int64(0), time.Now()
	for {
		select {
		case <-r.all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		r.progress(r.total)
		if ran := r.ran.Load(); ran != last {
			last, moved = ran, time.Now()
		} else if time.Since(moved) > stuckAfter {
			return fmt.Errorf("%w: %d of %d have run", ErrStuck, ran, r.total)
		}
	}
}
