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
	renewed := w.sinceStart()
	ticker := time.NewTicker(w.config.Lease / 3)
	defer ticker.Stop()
	fence := time.NewTimer(w.config.Lease)
	defer fence.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-fence.C:
			w.config.Logger.Warn("coppice: the lease could not be renewed in time; handlers are cancelled")
			w.held.loseAll()
			continue
		case <-ticker.C:
		}
		asked := w.sinceStart() // the database counts from a later moment, so this is the careful one
		// The beat must not outlast the lease that it renews.
		held, err := w.beat(ctx, min(w.config.Lease/3, max(renewed+w.config.Lease-asked, minBeat)))
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && held:
			renewed = asked
		case err == nil:
			w.config.Logger.Warn("coppice: the lease was lost; handlers are cancelled and the worker registers anew")
			w.held.loseAll()
			asked = w.sinceStart()
			if err := w.register(ctx); err != nil {
				continue
			}
			renewed = asked
		default:
			w.config.Logger.Warn("coppice: lease not renewed; trying again", "error", err)
			continue
		}
		fence.Reset(renewed + w.config.Lease - w.sinceStart())
	}
}

// minBeat is how long a beat may take when the lease is over anyhow.
const minBeat = 100 * time.Millisecond

// beat renews the lease within limit, and does what is due with every beat.
func (w *Worker) beat(ctx context.Context, limit time.Duration) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	held, err := w.client.store.Beat(limited, w.ID(), w.config.Lease, w.releasing.Load())
	cancel()
	if err != nil || !held {
		return held, err
	}
	ctx, cancel = context.WithTimeout(ctx, w.config.Lease/3)
	defer cancel()
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
		}, func(queue string) { w.wake([]string{queue}) }, func(string) {
			if err := w.refreshQueues(ctx); err != nil {
				w.config.Logger.Debug("coppice: queues not read", "error", err)
			}
		})
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
