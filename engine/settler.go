package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

const (
	// maxSettle bounds one batch: larger ones are no faster and hold locks for longer.
	maxSettle = 1_000
	// maxSettleBytes bounds the results and texts of one batch. It travels in one message, and the server
	// ends a connection that sends one of more than a gigabyte.
	maxSettleBytes = 32 << 20
	// asideFor is how long an outcome that the database refuses waits until it is sent again.
	asideFor = 30 * time.Second
)

// settler writes outcomes. Batches form by themselves: one flush is in flight, and the next takes whatever has
// gathered meanwhile, so that a lone job waits for nothing and a flood shares its commits.
type settler struct {
	store   *store.Store
	worker  func() tree.WorkerID
	written func(batch []store.Ending, got *store.Settled) // called after each commit
	away    trouble                                        // the database takes nothing
	refused trouble                                        // it refuses one outcome
	kick    chan struct{}                                  // cap 1; add sends, loop receives
	done    chan struct{}                                  // closed by loop
	left    int                                            // outcomes that loop gave up on; to be read once done is closed

	mu       sync.Mutex // protects following fields
	gathered []store.Ending
	closing  bool // loop ends when nothing is gathered

	logger  *slog.Logger
	aside   []store.Ending // what the database refuses by itself; loop's alone
	asideAt time.Time      // when it is sent again
}

func newSettler(st *store.Store, worker func() tree.WorkerID, written func([]store.Ending, *store.Settled), logger *slog.Logger) *settler {
	return &settler{
		store: st, worker: worker, written: written, logger: logger, kick: make(chan struct{}, 1), done: make(chan struct{}),
		away: trouble{
			logger: logger, level: slog.LevelWarn, what: "coppice: outcomes not written yet; trying again",
			gone: "coppice: outcomes are written again",
		},
		refused: trouble{
			logger: logger, level: slog.LevelError,
			what: "coppice: the database refuses an outcome, which is kept and tried again; others are written. Run coppice doctor",
		},
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
	n, bytes := 0, 0
	for n < min(len(s.gathered), maxSettle) {
		e := &s.gathered[n]
		if bytes += len(e.Result) + len(e.Error) + len(e.Stack); n > 0 && bytes > maxSettleBytes {
			break
		}
		n++
	}
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

// loop settles until it is closed and nothing is left, or ctx ends. What the database refuses to take is left, for
// the worker's lease to run out.
func (s *settler) loop(ctx context.Context) {
	defer close(s.done)
	for {
		var again <-chan time.Time
		if len(s.aside) > 0 {
			if left := time.Until(s.asideAt); left <= 0 {
				s.add(s.aside...)
				s.aside = nil
			} else {
				again = time.After(left)
			}
		}
		batch, last := s.take()
		if len(batch) == 0 {
			if last {
				s.left = len(s.aside)
				return
			}
			select {
			case <-s.kick:
			case <-again:
			case <-ctx.Done():
				return
			}
			continue
		}
		if !s.flush(ctx, batch, false) {
			s.left = len(batch) + s.waiting() + len(s.aside)
			return
		}
	}
}

// flush writes one batch, and tries again for as long as the database does not answer: the fence makes a
// repeated settle harmless. A batch that the database refuses, or cuts off for taking too long, is written in halves,
// so that one outcome that it will not take keeps no other from being written. again says that an earlier try
// may have been written.
func (s *settler) flush(ctx context.Context, batch []store.Ending, again bool) bool {
	for try := 0; ; try++ {
		settled, err := s.store.Settle(ctx, s.worker(), batch)
		if err == nil {
			s.away.over()
			s.settled(batch, settled, again || try > 0)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		half, refused := len(batch)/2, store.Refused(err)
		switch {
		case half > 0 && (refused || store.CutOff(err)):
			return s.flush(ctx, batch[:half], again || try > 0) && s.flush(ctx, batch[half:], again || try > 0)
		case refused:
			s.refused.failed(err, "job_id", int64(batch[0].ID))
			if len(s.aside) == 0 {
				s.asideAt = time.Now().Add(asideFor)
			}
			s.aside = append(s.aside, batch[0])
			return true
		}
		s.away.failed(err, "jobs", len(batch))
		select {
		case <-ctx.Done():
			return false
		case <-time.After(retryIn(try)):
		}
	}
}

func (s *settler) settled(batch []store.Ending, got *store.Settled, again bool) {
	s.written(batch, got)
	if len(got.Lost) > 0 && !again { // after an unknown outcome, "lost" may mean "written the first time"
		s.logger.Warn("coppice: claims were lost; their outcomes are not recorded", "jobs", len(got.Lost), "first", int64(got.Lost[0].ID))
	}
}
