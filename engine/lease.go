package engine

import (
	"context"
	"time"

	"github.com/coppicehq/coppice/store"
)

// keepLease renews the worker's lease every third of it. A worker that could not for a whole lease, by its
// own monotonic clock, must assume that others take its jobs: it cancels its handlers itself. Every beat
// also refreshes what the queues' rows say. docs/internals.md, Lease, has the protocol.
func (w *Worker) keepLease(ctx context.Context) {
	ticker := time.NewTicker(w.config.Lease / 3)
	defer ticker.Stop()
	renewed := w.sinceStart()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		asked := w.sinceStart()
		held, err := w.beat(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && held:
			renewed = asked
		case err == nil:
			w.config.Logger.Warn("coppice: the lease was lost; handlers are cancelled and the worker registers anew")
			w.held.loseAll()
			if err := w.register(ctx); err == nil {
				renewed = w.sinceStart()
			}
		default:
			w.config.Logger.Warn("coppice: lease not renewed; trying again", "error", err)
		}
		if w.sinceStart()-renewed >= w.config.Lease {
			w.held.loseAll()
		}
	}
}

func (w *Worker) beat(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, w.config.Lease/3)
	defer cancel()
	held, err := w.client.store.Beat(ctx, w.ID(), w.config.Lease, w.releasing.Load())
	if err != nil || !held {
		return held, err
	}
	if err := w.refreshQueues(ctx); err != nil {
		w.config.Logger.Debug("coppice: queues not read", "error", err)
	}
	if err := w.giveBackUnknown(ctx); err != nil {
		w.config.Logger.Debug("coppice: claims not compared", "error", err)
	}
	return true, nil
}

// giveBackUnknown returns jobs that a claim took whose answer never arrived: the database says that they are
// this worker's, and the worker does not know them. It waits for a moment without a claim in flight, whose
// jobs would look just like that.
func (w *Worker) giveBackUnknown(ctx context.Context) error {
	if !w.claiming.TryLock() {
		return nil // the next beat looks again
	}
	defer w.claiming.Unlock()
	mine, err := w.client.store.ClaimsOf(ctx, w.ID())
	if err != nil {
		return err
	}
	var unknown []store.Ending
	for _, f := range mine {
		if !w.held.holds(f) {
			unknown = append(unknown, store.Ending{Fence: f, End: store.EndReleased})
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	settled, err := w.client.store.Settle(ctx, w.ID(), unknown)
	if err == nil && len(settled.Woken) > 0 {
		w.client.Wake(settled.Woken...)
	}
	return err
}

// listen hears wake-ups for as long as the worker lives, and connects again when the connection breaks.
func (w *Worker) listen(ctx context.Context) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 30*time.Second) {
		err := w.client.store.Listen(ctx, func() {
			wait = 100 * time.Millisecond
			w.wake(w.queueNames()) // what came while nobody listened
		}, func(queue string) { w.wake([]string{queue}) })
		if ctx.Err() != nil {
			return
		}
		w.config.Logger.Debug("coppice: not listening; polling goes on", "error", err, "again_in", wait)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
