package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// run runs one claimed job to its end and hands the outcome to the settler.
func (w *Worker) run(claim *store.Claim) {
	ctx, cancel := context.WithCancelCause(w.handlers)
	switch w.held.start(claim.Fence, cancel) {
	case goNot:
		cancel(nil)
		return
	case goStop:
		cancel(nil)
		w.settler.add(w.ending(claim, store.EndStopped))
		return
	case goBack:
		cancel(nil)
		w.settler.add(w.ending(claim, store.EndReleased))
		return
	case goRun:
	}
	a := attempt{claim: claim}
	defer func() { // also when the handler calls runtime.Goexit
		cancel(nil)
		w.held.stop(claim.Fence)
		w.conclude(&a)
	}()
	w.try(ctx, &a)
}

// ending is an outcome of a claim without more to it.
func (w *Worker) ending(claim *store.Claim, end store.End) store.Ending {
	return store.Ending{Fence: claim.Fence, ParentID: claim.ParentID, Round: claim.Round, Queue: claim.Queue, Keys: claim.Keys, End: end}
}

// conclude hands the outcome of an ended attempt to the settler.
func (w *Worker) conclude(a *attempt) {
	if errors.Is(a.cause, ErrClaimLost) {
		w.held.forget(a.claim.Fence)
		w.log(slog.LevelDebug, "coppice: claim lost while the handler ran", a.claim)
		return
	}
	if w.fannedOut(a) {
		return
	}
	var stop *StopError
	if a.err != nil && errors.As(a.cause, &stop) {
		w.concludeStopped(a, stop)
		return
	}
	ending := store.Ending{Fence: a.claim.Fence, ParentID: a.claim.ParentID, Round: a.claim.Round, Result: a.result}
	switch {
	case a.err != nil:
		ending = classify(a)
		w.logFailure(a.claim, &ending)
	case a.skipped != "":
		ending.Result, ending.Error = nil, tree.CleanText(a.skipped, tree.MaxErrorBytes)
		w.log(slog.LevelDebug, "coppice: job skipped", a.claim, slog.String("why", ending.Error))
	}
	ending.Queue, ending.Keys, ending.Keep = a.claim.Queue, a.claim.Keys, w.keeps(a.claim)
	w.settler.add(ending)
}

// try calls the handler within the job's timeout and fills in what came of it, whatever user code does.
func (w *Worker) try(ctx context.Context, a *attempt) {
	h := w.work[a.claim.Kind]
	if a.claim.Round > 0 {
		h = w.finalize[a.claim.Kind]
	}
	a.backoff = w.backoffOf(h, a.claim)
	if d := w.timeoutOf(h, a.claim); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, ErrTimeout)
		defer cancel()
	}
	info := newJobInfo(a.claim, w.client)
	info.worker = w
	ctx = context.WithValue(ctx, jobKey{}, info)
	returned := false
	defer func() {
		// Not only panics end a handler: runtime.Goexit (a t.FailNow in a handler) does too, and recover
		// answers nil then.
		if p := recover(); p != nil || !returned {
			a.panicked, a.stack, a.err, a.result = true, string(debug.Stack()), panicError(p), nil
		}
		a.cause, a.held = endedBy(ctx), time.Since(a.claim.TakenAt)
	}()
	a.err = chain(func(ctx context.Context, info *JobInfo) (err error) {
		a.result, err = h.run(ctx, info, a.claim, w.childrenOf(a.claim))
		return err
	}, w.config.Middleware)(ctx, info)
	a.skipped = info.skipped
	if a.err == nil && a.result != nil {
		if err := tree.CheckJSON(a.result, w.config.MaxResultBytes); err != nil {
			a.err = &badResultError{err}
		}
	}
	returned = true
}

func panicError(p any) error {
	if p == nil {
		return fmt.Errorf("the handler ended its goroutine (runtime.Goexit)")
	}
	if err, ok := p.(error); ok {
		return fmt.Errorf("panic: %w", err)
	}
	return fmt.Errorf("panic: %v", p) // fmt survives methods of p that panic in their turn
}

func (w *Worker) childrenOf(c *store.Claim) *Children {
	if c.Round == 0 {
		return nil
	}
	return &Children{
		Completed: c.Completed, Dead: c.Dead, Cancelled: c.Cancelled, Removed: c.Removed,
		store: w.client.store, parent: c.ID, root: c.RootID,
	}
}

// timeoutOf follows the precedence: the job's own, the registration's, the worker's. Not positive: none.
func (w *Worker) timeoutOf(h *handler, c *store.Claim) time.Duration {
	for _, d := range []time.Duration{c.Timeout, h.options.timeout} {
		if d != 0 {
			return d
		}
	}
	return w.config.Timeout
}

// backoffOf follows the same precedence.
func (w *Worker) backoffOf(h *handler, c *store.Claim) tree.Backoff {
	for _, b := range []*tree.Backoff{c.Backoff, h.options.backoff} {
		if b != nil {
			return b.WithDefaults()
		}
	}
	return w.config.Backoff.WithDefaults()
}

// keeps says whether the job's row goes to the history.
func (w *Worker) keeps(c *store.Claim) bool {
	if c.KeepFor != nil {
		return *c.KeepFor > 0
	}
	return w.lanes[c.Queue].keeps.Load()
}

func (w *Worker) logFailure(c *store.Claim, e *store.Ending) {
	switch e.End {
	case store.EndDead:
		w.log(slog.LevelWarn, "coppice: job is dead", c, slog.String("reason", string(e.Reason)), slog.String("error", e.Error))
	case store.EndRetry:
		w.log(slog.LevelDebug, "coppice: attempt failed", c, slog.String("outcome", string(e.Outcome)),
			slog.String("error", e.Error), slog.Duration("retry_in", e.Delay))
	default:
		w.log(slog.LevelDebug, "coppice: attempt ended", c, slog.String("error", e.Error))
	}
}

func (w *Worker) log(level slog.Level, message string, c *store.Claim, more ...slog.Attr) {
	if !w.config.Logger.Enabled(context.Background(), level) {
		return
	}
	w.config.Logger.LogAttrs(context.Background(), level, message, append(newJobInfo(c, nil).LogAttrs(), more...)...)
}
