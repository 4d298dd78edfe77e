package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// ErrNotKept is what Wait answers for a job of which nothing is known: its history was not kept (tree.KeepFor, or the
// queue's retention), or there never was such a job.
var ErrNotKept = errors.New("coppice: nothing is known of the job: its history was not kept, or there was no such job")

// DeadError says that a job that was waited for is in the dead-letter queue.
type DeadError struct {
	ID     tree.ID
	Reason tree.Reason
	Text   string // the last error
}

func (e *DeadError) Error() string {
	return fmt.Sprintf("coppice: job %d is dead (%s): %s", e.ID, e.Reason, e.Text)
}

// CancelledError says that a job that was waited for was cancelled.
type CancelledError struct {
	ID    tree.ID
	Actor string // "": by its handler, or at its deadline
	Why   string // "": not said
}

func (e *CancelledError) Error() string {
	text := fmt.Sprintf("coppice: job %d was cancelled", e.ID)
	if e.Actor != "" {
		text += " by " + e.Actor
	}
	if e.Why != "" {
		text += ": " + e.Why
	}
	return text
}

// SkippedError says that a job that was waited for completed without running, since its guard said so.
type SkippedError struct {
	ID  tree.ID
	Why string
}

func (e *SkippedError) Error() string {
	return fmt.Sprintf("coppice: job %d was skipped: %s", e.ID, e.Why)
}

// Wait waits until a job has ended, wherever it runs, and returns its result; the zero value if it gave none. The job may
// have ended before. A finalizer ends after its last round. Errors: [*DeadError] as soon as the job is a dead letter,
// whatever becomes of that; [*CancelledError]; [*SkippedError]; [ErrNotKept]; a result that is no R; ctx's.
//
// The end is told by NOTIFY, and looked for with a growing interval of at most a second where that does not arrive. All who
// wait by one client share one connection, one goroutine and one query.
func Wait[R any](ctx context.Context, c *Client, id tree.ID) (R, error) {
	var result R
	e, err := c.waits.wait(ctx, id)
	if err != nil {
		return result, fmt.Errorf("coppice: wait for job %d: %w", id, err)
	}
	switch {
	case e.State == tree.Dead:
		return result, &DeadError{ID: id, Reason: e.Reason, Text: e.Error}
	case e.State == tree.Cancelled:
		return result, &CancelledError{ID: id, Actor: e.Actor, Why: e.Error}
	case e.Skipped:
		return result, &SkippedError{ID: id, Why: e.Error}
	case e.State == "":
		return result, fmt.Errorf("wait for job %d: %w", id, ErrNotKept)
	case len(e.Result) == 0:
		return result, nil
	}
	if err := json.Unmarshal(e.Result, &result); err != nil {
		return result, fmt.Errorf("coppice: decode the result of job %d: %w", id, err)
	}
	return result, nil
}

const (
	waitFirst = 50 * time.Millisecond // between looks, at first
	waitMost  = time.Second           // and in the end
	waitPage  = 1_000                 // jobs that are looked for at once
)

// waits are those who wait for jobs by one client. Its goroutine lives while there are any.
type waits struct {
	client *Client
	kick   chan struct{} // cap 1; there is something in fresh

	mu      sync.Mutex                                // protects following fields
	waiting map[tree.ID]map[chan store.Ended]struct{} // each of cap 1, written once
	fresh   map[tree.ID]struct{}                      // to be looked at now
	running bool
}

func newWaits(c *Client) *waits {
	return &waits{client: c, kick: make(chan struct{}, 1), waiting: map[tree.ID]map[chan store.Ended]struct{}{}, fresh: map[tree.ID]struct{}{}}
}

func (w *waits) wait(ctx context.Context, id tree.ID) (store.Ended, error) {
	if err := ctx.Err(); err != nil {
		return store.Ended{}, context.Cause(ctx)
	}
	ch := make(chan store.Ended, 1)
	w.mu.Lock()
	if w.waiting[id] == nil {
		w.waiting[id] = map[chan store.Ended]struct{}{}
	}
	w.waiting[id][ch] = struct{}{}
	w.fresh[id] = struct{}{}
	if !w.running {
		w.running = true
		go w.loop() //nolint:gosec // it ends when nobody waits any more, which is not when this call does
	}
	w.mu.Unlock()
	w.nudge()
	select {
	case e := <-ch:
		return e, nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	if delete(w.waiting[id], ch); len(w.waiting[id]) == 0 {
		delete(w.waiting, id)
	}
	w.mu.Unlock()
	w.nudge()
	return store.Ended{}, context.Cause(ctx)
}

func (w *waits) nudge() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// ended is the hint that jobs have ended.
func (w *waits) ended(ids ...tree.ID) {
	w.mu.Lock()
	awaited := false
	for _, id := range ids {
		if _, ok := w.waiting[id]; ok {
			w.fresh[id], awaited = struct{}{}, true
		}
	}
	w.mu.Unlock()
	if awaited {
		w.nudge()
	}
}

// loop looks for the ends of jobs while somebody waits for any: at once for those that are new or were told, and for all
// of them now and then.
func (w *waits) loop() {
	ctx, cancel := context.WithCancel(context.Background())
	var listener sync.WaitGroup
	listener.Go(func() { w.listen(ctx) })
	defer listener.Wait()
	defer cancel()
	interval := waitFirst
	for {
		timer := time.NewTimer(time.Duration(float64(interval) * (0.75 + rand.Float64()/2)))
		var all bool
		select {
		case <-w.kick:
		case <-timer.C:
			all = true
			interval = min(interval*3/2, waitMost)
		}
		timer.Stop()
		w.mu.Lock()
		ids := slices.Collect(maps.Keys(w.fresh))
		clear(w.fresh)
		if all {
			ids = slices.Collect(maps.Keys(w.waiting))
		}
		if len(w.waiting) == 0 {
			w.running = false
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		if len(ids) > 0 && !all {
			interval = waitFirst
		}
		for page := range slices.Chunk(ids, waitPage) {
			w.look(ctx, page)
		}
	}
}

func (w *waits) look(ctx context.Context, ids []tree.ID) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	ended, err := w.client.store.Await(ctx, ids)
	if err != nil {
		w.client.logger.Debug("coppice: ends of jobs not read; looking again", "error", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range ended {
		for ch := range w.waiting[e.ID] {
			ch <- e
		}
		delete(w.waiting, e.ID)
	}
}

// listen hears of ends until ctx ends, and connects again when the connection breaks.
func (w *waits) listen(ctx context.Context) {
	for wait := waitMost; ; wait = min(2*wait, 30*time.Second) {
		err := w.client.store.ListenEnded(ctx, func() {
			wait = waitMost
			w.mu.Lock()
			for id := range w.waiting { // what ended while nobody listened
				w.fresh[id] = struct{}{}
			}
			w.mu.Unlock()
			w.nudge()
		}, func(id tree.ID) { w.ended(id) })
		if ctx.Err() != nil {
			return
		}
		w.client.logger.Debug("coppice: not listening for the ends of jobs; polling goes on", "error", err, "again_in", wait)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
