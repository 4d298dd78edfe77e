package bench

import (
	"context"

	"github.com/coppicehq/coppice/engine"
)

// noop is a job that does nothing.
type noop struct {
	N int `json:"n"` // its number
}

// Kind names it.
func (noop) Kind() string { return "coppice.bench.noop" }

// parent is the root of a tree of noops. Their numbers follow its own.
type parent struct {
	N int `json:"n"`
}

// Kind names it.
func (parent) Kind() string { return "coppice.bench.parent" }

func (r *run) registry() (*engine.Registry, error) {
	reg := engine.NewRegistry()
	inTrees := r.options.children() > 0
	err := engine.Work(reg, func(_ context.Context, job *engine.Job[noop]) (*int, error) {
		r.mark(job.Args.N)
		if !inTrees {
			return nil, nil
		}
		return &job.Args.N, nil
	})
	if err != nil {
		return nil, err
	}
	err = engine.Finalize(reg, func(ctx context.Context, job *engine.Job[parent], kids *engine.Children) (int, error) {
		next := job.Args.N + 1
		for kid, err := range engine.Results[int](ctx, kids) {
			if err != nil {
				return 0, err
			}
			if kid.Value != next {
				break // counted below
			}
			next++
		}
		read := next - job.Args.N - 1
		if read != r.options.children() || kids.Completed != read {
			r.wrong.Add(1)
		}
		r.read.Add(int64(read))
		r.mark(job.Args.N)
		return read, nil
	})
	return reg, err
}

// mark notes that a job has run.
func (r *run) mark(n int) {
	if n < 0 || n >= r.total {
		r.wrong.Add(1) // no job of ours
		return
	}
	bit := uint32(1) << (n % 32)
	if r.seen[n/32].Or(bit)&bit != 0 {
		r.twice.Add(1)
		return
	}
	if r.ran.Add(1) == int64(r.total) {
		close(r.all)
	}
}
