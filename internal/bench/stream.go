package bench

import (
	"context"
	"errors"
	"time"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// stream streams one tree in while a worker runs what is there, and measures both together.
func (r *run) stream(ctx context.Context, client *engine.Client, result Result) (Result, error) {
	w, err := r.worker(client)
	if err != nil {
		return Result{}, err
	}
	started := time.Now()
	if err := w.Start(ctx); err != nil {
		return Result{}, err
	}
	options := []tree.Option{tree.Queue(r.options.Queue)}
	if r.options.KeepNone {
		options = append(options, tree.KeepFor(0))
	}
	n := 1
	_, err = client.Stream(ctx, tree.New(parent{0}, options...), func(yield func(*tree.Node, error) bool) {
		for ; n < r.total; n++ {
			if !yield(tree.New(noop{n}, options...), nil) {
				return
			}
			if n%insertBatch == 0 {
				r.progress(n)
			}
		}
	})
	took := time.Since(started)
	result.InsertSeconds, result.InsertsPerSecond = took.Seconds(), float64(r.total)/took.Seconds()
	if err == nil {
		err = r.await(ctx)
	}
	// The outcomes are part of the work: Stop returns when the last is written.
	if err := errors.Join(err, w.Stop(context.WithoutCancel(ctx))); err != nil {
		return Result{}, err
	}
	took = time.Since(started)
	r.progress(r.total)
	result.Seconds, result.JobsPerSecond = took.Seconds(), float64(r.total)/took.Seconds()
	result.ResultsRead, result.PeakMemoryBytes = r.read.Load(), peakMemory()
	return result, r.verify(ctx, client.Store())
}
