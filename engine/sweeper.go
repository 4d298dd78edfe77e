package engine

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/coppicehq/coppice/tree"
)

// sweeper carries on what closes in the trees that this worker's settles found closing (docs/internals.md, Closing). What
// it leaves, a reaper does.
type sweeper struct {
	client *Client
	logger *slog.Logger
	kick   chan struct{} // cap 1; add sends, loop receives

	mu    sync.Mutex // protects following field
	trees map[tree.ID]struct{}
}

func newSweeper(client *Client, logger *slog.Logger) *sweeper {
	return &sweeper{client: client, logger: logger, kick: make(chan struct{}, 1), trees: map[tree.ID]struct{}{}}
}

func (s *sweeper) add(roots []tree.ID) {
	if len(roots) == 0 {
		return
	}
	s.mu.Lock()
	for _, id := range roots {
		s.trees[id] = struct{}{}
	}
	s.mu.Unlock()
	select {
	case s.kick <- struct{}{}:
	default: // a kick is pending
	}
}

func (s *sweeper) take() []tree.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	roots := slices.Sorted(maps.Keys(s.trees))
	clear(s.trees)
	return roots
}

// loop sweeps until ctx ends.
func (s *sweeper) loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		}
		for _, root := range s.take() {
			swept, err := s.client.store.Sweep(ctx, root)
			s.client.wakeAll(swept.Woken)
			s.client.ended(swept.Ended)
			if err != nil && ctx.Err() == nil {
				s.logger.Debug("coppice: a tree is not closed yet; a reaper carries on", "root_id", int64(root), "error", err)
			}
		}
	}
}
