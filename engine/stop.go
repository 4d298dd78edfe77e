package engine

import (
	"context"
	"errors"
	"log/slog"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// ErrStopRequested is in the chain of the cause when a handler's context ends because the job is to stop: it was cancelled,
// or its tree failed. The cause itself is a [*StopError]. What the handler returns then does not matter, unless
// it returns without an error: then the job has completed.
var ErrStopRequested = errors.New("coppice: the job was asked to stop")

// StopError says who asked a running job to stop, and why.
type StopError struct {
	// Closing is what becomes of the job when it stops: "cancelled", or the [tree.Reason] of a dead letter.
	Closing string
	Actor   string // "": the engine itself
	Why     string // "": not said
}

func (e *StopError) Error() string {
	text := "coppice: the job was asked to stop (" + e.Closing + ")"
	if e.Actor != "" {
		text += " by " + e.Actor
	}
	if e.Why != "" {
		text += ": " + e.Why
	}
	return text
}

// Unwrap returns [ErrStopRequested].
func (e *StopError) Unwrap() error { return ErrStopRequested }

// readTold does what is asked of the jobs that the worker holds: stop, or do not start.
func (w *Worker) readTold(ctx context.Context) {
	told, err := w.client.store.Told(ctx, w.ID())
	if err != nil {
		if ctx.Err() == nil {
			w.config.Logger.Debug("coppice: not heard what is asked of running jobs; the next beat asks again", "error", err)
		}
		return
	}
	w.held.heed(told)
}

func stopError(t store.Told) *StopError {
	return &StopError{Closing: t.Closing, Actor: t.Actor, Why: t.Why}
}

// concludeStopped hands on the end of an attempt that was asked to stop and did not complete. A failure on the way is
// worth its row only if it is more than the end of the context.
func (w *Worker) concludeStopped(a *attempt, stop *StopError) {
	e := w.ending(a.claim, store.EndStopped)
	switch {
	case a.panicked:
		e.Outcome = tree.OutcomePanic
	case walk(a.err, func(err error) bool { return err == context.Canceled || err == error(stop) }): //nolint:errorlint // walk visits the chain
	case findControl(a.err) == nil:
		e.Outcome = tree.OutcomeError
	}
	if e.Outcome != "" {
		e.Error = tree.CleanText(errorText(a.err), tree.MaxErrorBytes)
		e.Stack = tree.CleanText(a.stack, tree.MaxStackBytes)
	}
	w.log(slog.LevelDebug, "coppice: job stopped", a.claim, slog.String("closing", stop.Closing), slog.String("why", stop.Why))
	w.settler.add(e)
}

// Cancel ends a job and everything below it ([store.Store.Cancel]), and wakes who can go on.
func (c *Client) Cancel(ctx context.Context, id tree.ID, scope store.Scope, by store.By) (store.Cancelled, error) {
	out, err := c.store.Cancel(ctx, id, scope, by)
	c.wakeAll(out.Woken)
	c.ended(out.Ended)
	return out, err
}

// Hold keeps jobs from being started until they are released ([store.Store.Hold]).
func (c *Client) Hold(ctx context.Context, id tree.ID, scope store.Scope, by store.By) (store.Steered, error) {
	return c.store.Hold(ctx, id, scope, by)
}

// Release undoes holds ([store.Store.Release]), and wakes workers.
func (c *Client) Release(ctx context.Context, id tree.ID, scope store.Scope, by store.By) (store.Steered, error) {
	return c.steered(c.store.Release(ctx, id, scope, by))
}

// RunNow makes scheduled jobs ready ([store.Store.RunNow]), and wakes workers.
func (c *Client) RunNow(ctx context.Context, id tree.ID, scope store.Scope, by store.By) (store.Steered, error) {
	return c.steered(c.store.RunNow(ctx, id, scope, by))
}

// SetPriority gives jobs another priority ([store.Store.SetPriority]).
func (c *Client) SetPriority(ctx context.Context, id tree.ID, scope store.Scope, priority int, by store.By) (store.Steered, error) {
	return c.steered(c.store.SetPriority(ctx, id, scope, priority, by))
}

func (c *Client) steered(out store.Steered, err error) (store.Steered, error) {
	c.wakeAll(out.Woken)
	return out, err
}

func (c *Client) wakeAll(queues []string) {
	if len(queues) > 0 {
		c.Wake(queues...)
	}
}
