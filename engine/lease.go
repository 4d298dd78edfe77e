package engine

import (
	"context"
	"slices"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
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
		case <-w.lapsed:
		}
		asked := w.sinceStart() // the database counts from a later moment, so this is the careful one
		// The beat must not outlast the lease that it renews.
		held, err := w.beat(ctx, min(w.config.Lease/3, max(renewed+w.config.Lease-asked, minBeat)))
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && held:
			renewed = asked
			w.leaseTrouble.over()
		case err == nil:
			w.config.Logger.Warn("coppice: the lease was lost; handlers are cancelled and the worker registers anew")
			w.held.loseAll()
			asked = w.sinceStart()
			if err := w.register(ctx); err != nil {
				w.leaseTrouble.failed(err)
				continue
			}
			renewed = asked
			w.wake(w.queueNames()) // without a lease nothing was claimed
		default:
			w.leaseTrouble.failed(err)
			continue
		}
		fence.Reset(renewed + w.config.Lease - w.sinceStart())
	}
}

// renewSoon asks for a beat before its time: a claim found the worker without a lease.
func (w *Worker) renewSoon() {
	select {
	case w.lapsed <- struct{}{}:
	default:
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
	w.readTold(ctx)
	if err := w.giveBackUnknown(ctx); err != nil {
		w.config.Logger.Debug("coppice: claims not compared", "error", err)
	}
	return true, nil
}

// giveBackUnknown returns jobs that a claim took whose answer never arrived: the database says that they are
// this worker's, and the worker does not know them. Those of a claim in flight look just like that, so what is
// suspect is looked at again while the lanes that it is of claim nothing.
func (w *Worker) giveBackUnknown(ctx context.Context) error {
	unknown, err := w.unknownClaims(ctx)
	if err != nil || len(unknown) == 0 {
		return err
	}
	waiting := map[*lane]bool{}
	defer func() {
		for l := range waiting {
			<-l.claiming
		}
	}()
	for _, e := range unknown {
		l := w.lanes[e.Queue]
		if l == nil || waiting[l] {
			continue
		}
		select {
		case l.claiming <- struct{}{}:
			waiting[l] = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if unknown, err = w.unknownClaims(ctx); err != nil {
		return err
	}
	unknown = slices.DeleteFunc(unknown, func(e store.Ending) bool {
		l := w.lanes[e.Queue]
		return l != nil && !waiting[l] // of a claim that began since; the next beat looks again
	})
	if len(unknown) == 0 {
		return nil
	}
	settled, err := w.client.store.Settle(ctx, w.ID(), unknown)
	if err == nil && len(settled.Woken) > 0 {
		w.client.Wake(settled.Woken...)
	}
	return err
}

// unknownClaims lists what the database says that this worker holds and the worker does not know, as releases.
func (w *Worker) unknownClaims(ctx context.Context) ([]store.Ending, error) {
	mine, err := w.client.store.ClaimsOf(ctx, w.ID())
	if err != nil {
		return nil, err
	}
	var unknown []store.Ending
	for _, c := range mine {
		if !w.held.holds(c.Fence) {
			unknown = append(unknown, store.Ending{Fence: c.Fence, Queue: c.Queue, Keys: c.Keys, End: store.EndReleased})
		}
	}
	return unknown, nil
}

// listen hears wake-ups for as long as the worker lives, and connects again when the connection breaks.
func (w *Worker) listen(ctx context.Context) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 30*time.Second) {
		err := w.client.store.Listen(ctx, store.Hints{
			Ready: func() {
				wait = 100 * time.Millisecond
				w.wake(w.queueNames()) // what came while nobody listened
				w.readTold(ctx)
			},
			Wake: func(queue string) { w.wake([]string{queue}) },
			Changed: func(string) {
				if err := w.refreshQueues(ctx); err != nil {
					w.config.Logger.Debug("coppice: queues not read", "error", err)
				}
			},
			Told: func(worker tree.WorkerID) {
				if worker == w.ID() {
					w.readTold(ctx)
				}
			},
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
