package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/coppicehq/coppice/store"
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
	idle   chan struct{} // closed when no sender runs
	active bool
}

func newNotifier(st *store.Store, logger *slog.Logger) *notifier {
	idle := make(chan struct{})
	close(idle)
	return &notifier{store: st, logger: logger, dirty: map[string]struct{}{}, idle: idle}
}

// mark notes queues for sending and returns at once. A goroutine lives as long as there is something to send.
func (n *notifier) mark(queues []string) {
	if len(queues) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, q := range queues {
		n.dirty[q] = struct{}{}
	}
	if !n.active {
		n.active, n.idle = true, make(chan struct{})
		go n.send()
	}
}

func (n *notifier) send() {
	for {
		n.mu.Lock()
		if len(n.dirty) == 0 {
			n.active = false
			close(n.idle)
			n.mu.Unlock()
			return
		}
		queues := make([]string, 0, len(n.dirty))
		for q := range n.dirty {
			queues = append(queues, q)
		}
		clear(n.dirty)
		n.mu.Unlock()
		slices.Sort(queues)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if err := n.store.Notify(ctx, queues); err != nil {
			n.logger.Debug("coppice: wake-up not sent; polling will find the jobs", "error", err)
		}
		cancel()
		<-time.After(notifyEvery)
	}
}

// flush waits until nothing is left to send.
func (n *notifier) flush(ctx context.Context) error {
	n.mu.Lock()
	idle := n.idle
	n.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
