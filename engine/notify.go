package engine

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// notifyEvery bounds how often one client sends wake-ups: the first of a burst goes at once, the rest together
// after this long. NOTIFY takes a lock on the whole database at commit, so it is neither sent from the
// transactions that insert and settle nor once for each of them.
const notifyEvery = 10 * time.Millisecond

// notifier sends the names of queues that got work, coalesced (docs/internals.md, Wake-up).
type notifier struct {
	store  *store.Store
	logger *slog.Logger

	mu     sync.Mutex // protects following fields
	dirty  map[string]struct{}
	ended  map[tree.ID]struct{}
	active bool          // a sender runs
	marks  uint64        // calls of mark
	sent   uint64        // of these, those whose queues were sent
	broken error         // why the newest wake-up could not be sent; nil: it was
	told   chan struct{} // closed, and made anew, when sent rises
}

func newNotifier(st *store.Store, logger *slog.Logger) *notifier {
	return &notifier{store: st, logger: logger, dirty: map[string]struct{}{}, ended: map[tree.ID]struct{}{}, told: make(chan struct{})}
}

// mark notes queues for sending and returns at once, with why the newest wake-up could not be sent, if so. A goroutine lives as
// long as there is something to send.
func (n *notifier) mark(queues []string) error {
	if len(queues) == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, q := range queues {
		n.dirty[q] = struct{}{}
	}
	n.markedLocked()
	return n.broken
}

// markEnded notes jobs whose end is to be told.
func (n *notifier) markEnded(ids []tree.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		n.ended[id] = struct{}{}
	}
	n.markedLocked()
}

func (n *notifier) markedLocked() {
	n.marks++
	if !n.active {
		n.active = true
		go n.send()
	}
}

func (n *notifier) send() {
	for {
		n.mu.Lock()
		if len(n.dirty)+len(n.ended) == 0 {
			n.active = false
			n.mu.Unlock()
			return
		}
		upTo := n.marks
		queues := make([]string, 0, len(n.dirty))
		for q := range n.dirty {
			queues = append(queues, q)
		}
		clear(n.dirty)
		ended := slices.Sorted(maps.Keys(n.ended))
		clear(n.ended)
		n.mu.Unlock()
		slices.Sort(queues)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		var broken error
		if len(queues) > 0 {
			if broken = n.store.Notify(ctx, queues); broken != nil {
				n.logger.Debug("coppice: wake-up not sent; polling will find the jobs", "error", broken)
			}
		}
		if len(ended) > 0 {
			if err := n.store.NotifyEnded(ctx, ended); err != nil {
				n.logger.Debug("coppice: ends of jobs not told; polling will find them", "error", err)
			}
		}
		cancel()
		n.mu.Lock()
		n.sent = upTo
		if len(queues) > 0 {
			n.broken = broken
		}
		close(n.told)
		n.told = make(chan struct{})
		n.mu.Unlock()
		<-time.After(notifyEvery)
	}
}

// flush waits until what was marked before the call has been sent; others may go on marking.
func (n *notifier) flush(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for upTo := n.marks; n.sent < upTo; {
		told := n.told
		n.mu.Unlock()
		var err error
		select {
		case <-told:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		n.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}
