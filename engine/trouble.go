package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// troubleEvery is how often a failure that repeats is logged.
const troubleEvery = 30 * time.Second

// trouble logs something that fails again and again, as everything does while the database is away: the first
// failure at once, then one line in troubleEvery with how many there were, and that it is over.
type trouble struct {
	logger *slog.Logger
	level  slog.Level
	what   string // the line for a failure
	gone   string // the line for its end

	mu     sync.Mutex // protects following fields
	logged time.Time  // of the last line
	open   bool       // a line was logged, and success has not followed
	silent int        // failures since that line
}

func (t *trouble) failed(err error, more ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.logged.IsZero() && time.Since(t.logged) < troubleEvery {
		t.silent++
		return
	}
	more = append(more, "error", err)
	if t.silent > 0 {
		more = append(more, "failures_since", t.silent)
	}
	t.logged, t.open, t.silent = time.Now(), true, 0
	t.logger.Log(context.Background(), t.level, t.what, more...)
}

func (t *trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open {
		t.open = false
		t.logger.Info(t.gone)
	}
}
