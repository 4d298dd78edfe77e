package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// maxSettle bounds one batch: larger ones are no faster and hold locks for longer.
const maxSettle = 1_000

// settler writes outcomes. Batches form by themselves: one flush is in flight, and the next takes whatever has
// gathered meanwhile, so that a lone job waits for nothing and a flood shares its commits.
type settler struct {
	store   *store.Store
	worker  func() tree.WorkerID
	written func(batch []store.Ending, woken []string) // called after each commit
	logger  *slog.Logger
	kick    chan struct{} // cap 1; add sends, loop receives
	done    chan struct{} // closed by loop
	left    int           // outcomes that loop gave up on; to be read once done is closed

	mu       sync.Mutex // protects following fields
	gathered []store.Ending
	closing  bool // loop ends when nothing is gathered
}

func newSettler(st *store.Store, worker func() tree.WorkerID, written func([]store.Ending, []string), logger *slog.Logger) *settler {
	return &settler{
		store: st, worker: worker, written: written, logger: logger, kick: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

func (s *settler) add(endings ...store.Ending) {
	s.mu.Lock()
	s.gathered = append(s.gathered, endings...)
	s.mu.Unlock()
	s.nudge()
}

// close lets loop end once everything gathered is settled.
func (s *settler) close() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.nudge()
}

func (s *settler) nudge() {
	select {
	case s.kick <- struct{}{}:
	default: // a kick is pending
	}
}

func (s *settler) take() (batch []store.Ending, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.gathered), maxSettle)
	batch = s.gathered[:n:n]
	if s.gathered = s.gathered[n:]; len(s.gathered) == 0 {
		s.gathered = nil
	}
	return batch, s.closing
}

func (s *settler) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.gathered)
}

// loop settles until it is closed and nothing is left, or ctx ends.
func (s *settler) loop(ctx context.Context) {
	defer close(s.done)
	for {
		batch, last := s.take()
		if len(batch) == 0 {
			if last {
				return
			}
			select {
			case <-s.kick:
			case <-ctx.Done():
				return
			}
			continue
		}
		if !s.flush(ctx, batch) {
			s.left = len(batch) + s.waiting()
			return
		}
	}
}

// flush writes one batch, and tries again for as long as the database does not answer: the fence makes a
// repeated settle harmless.
func (s *settler) flush(ctx context.Context, batch []store.Ending) bool {
	for try := 0; ; try++ {
		settled, err := s.store.Settle(ctx, s.worker(), batch)
		if err == nil {
			s.settled(batch, settled, try > 0)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		s.logger.Warn("coppice: outcomes not written yet; trying again", "jobs", len(batch), "error", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(retryIn(try)):
		}
	}
}

func (s *settler) settled(batch []store.Ending, got *store.Settled, again bool) {
	s.written(batch, got.Woken)
	if len(got.Lost) > 0 && !again { // after an unknown outcome, "lost" may mean "written the first time"
		s.logger.Warn("coppice: claims were lost; their outcomes are not recorded", "jobs", len(got.Lost), "first", int64(got.Lost[0].ID))
	}
}
