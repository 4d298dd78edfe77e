package store

import (
	"context"
	"fmt"
	"time"

	sq "github.com/Masterminds/squirrel"

	"github.com/coppicehq/coppice/tree"
)

// DeadKey is the place of a dead letter in the order of the list: by when it died, and by id among those
// that died in one transaction.
type DeadKey struct {
	FailedAt time.Time // to the microsecond, of the years 1 to 9999
	ID       tree.ID
}

// before reports whether k comes before other, oldest first.
func (k DeadKey) before(other DeadKey) bool {
	if k.FailedAt.Equal(other.FailedAt) {
		return k.ID < other.ID
	}
	return k.FailedAt.Before(other.FailedAt)
}

// DeadPage says which part of a list of dead letters to read. Its zero value: the newest DefaultPage.
type DeadPage struct {
	After       *DeadKey // the next of the page before; nil: from the start
	OldestFirst bool     // false: the newest first
	Limit       int      // 1 to MaxPage; zero: DefaultPage
}

// DeadRow is one dead letter in a list.
type DeadRow struct {
	ID          tree.ID       `db:"id"`
	RootID      tree.ID       `db:"root_id"`
	ParentID    tree.ID       `db:"parent_id"` // zero: a root
	Kind        string        `db:"kind"`
	Queue       string        `db:"queue"`
	Reason      tree.Reason   `db:"reason"`
	Error       string        `db:"error"` // at most tree.MaxErrorBytes; "": none was given
	FailedAt    time.Time     `db:"failed_at"`
	DeadFor     time.Duration `db:"dead_for"` // since FailedAt
	Attempt     int           `db:"attempt"`  // attempts started
	MaxAttempts int           `db:"max_attempts"`
	Lost        int           `db:"lost"`      // times a worker died on it
	WorkerID    tree.WorkerID `db:"worker_id"` // who ran it last; zero: not known
	CreatedAt   time.Time     `db:"created_at"`
	DroppedKey  string        `db:"dropped_key"` // the dedup key that it held when it lived; "": none
	Counters                  // of its own children
	Tags        []string      `db:"tags"`
	Kept        bool          `db:"kept"` // held against retention
}

// DeadLetters lists dead letters by when they died, and returns the After of the next page; nil when there
// is none. The error has [ErrBadFilter] in its chain when the filter was refused.
//
// Each page walks an index from where it starts and stops when it is full: dead_jobs_queue for one queue,
// dead_jobs_failed for all. Other filters that few dead letters match read on past the rest. Of one tree,
// or of one parent, it reads all dead members by dead_jobs_tree and keeps the first of them. No locks.
func (s *Store) DeadLetters(ctx context.Context, f DeadFilter, p DeadPage) ([]DeadRow, *DeadKey, error) {
	out, next, err := s.deadLetters(ctx, f, p)
	if err != nil {
		return nil, nil, fmt.Errorf("list dead letters: %w", err)
	}
	return out, next, nil
}

func (s *Store) deadLetters(ctx context.Context, f DeadFilter, p DeadPage) ([]DeadRow, *DeadKey, error) {
	if err := f.check(); err != nil {
		return nil, nil, err
	}
	if err := s.locate(ctx, &f); err != nil {
		return nil, nil, err
	}
	limit := pageSize(p.Limit)
	text, args, err := deadSQL(&f, p, limit+1)
	if err != nil {
		return nil, nil, err
	}
	out, err := readRows[DeadRow](ctx, s, text, args...)
	if err != nil || len(out) <= limit {
		return out, nil, err
	}
	last := out[limit-1]
	return out[:limit], &DeadKey{FailedAt: last.FailedAt, ID: last.ID}, nil
}

func deadSQL(f *DeadFilter, p DeadPage, limit int) (string, []any, error) {
	first, last := f.span()
	direction := " DESC"
	if p.OldestFirst {
		direction = ""
		if p.After != nil && (first == nil || first.before(*p.After)) {
			first = p.After
		}
	} else if p.After != nil && (last == nil || p.After.before(*last)) {
		last = p.After
	}
	q := f.deadFrom(`d.id, d.root_id, coalesce(d.parent_id, 0) AS parent_id, d.kind, d.queue, d.reason,
		coalesce(d.error, '') AS error, d.failed_at, ` + nanos("now() - d.failed_at") + ` AS dead_for,
		d.attempt, d.max_attempts, d.lost, coalesce(d.worker_id, 0) AS worker_id, d.created_at,
		coalesce(d.dropped_key, '') AS dropped_key, d.pending, d.completed, d.dead, d.cancelled, d.removed,
		d.tags, d.kept`)
	if f.Queue != "" {
		q = inQueue(q, f.Queue, first, last).OrderBy("d.queue" + direction)
	} else {
		q = inAnyQueue(q, first, last)
	}
	return q.OrderBy("d.failed_at"+direction, "d.id"+direction).Suffix("LIMIT ?", limit).ToSql()
}

// span is the filter's times as keys: what is meant lies between them; nil: no bound. No id is zero, so
// (FailedAfter, 0) is before everything of that time, and (FailedBefore, 0) before everything that is too late.
func (f *DeadFilter) span() (first, last *DeadKey) {
	if !f.FailedAfter.IsZero() {
		first = &DeadKey{FailedAt: f.FailedAfter}
	}
	if !f.FailedBefore.IsZero() {
		last = &DeadKey{FailedAt: f.FailedBefore}
	}
	return first, last
}

// inAnyQueue bounds a walk through dead_jobs_failed at one key a side: of two on one side the index
// takes one to start from, and not always the closer.
func inAnyQueue(q sq.SelectBuilder, first, last *DeadKey) sq.SelectBuilder {
	if first != nil {
		q = q.Where("(d.failed_at, d.id) > (?, ?)", first.FailedAt, int64(first.ID))
	}
	if last != nil {
		q = q.Where("(d.failed_at, d.id) < (?, ?)", last.FailedAt, int64(last.ID))
	}
	return q
}

// inQueue bounds a walk through dead_jobs_queue. It compares and orders by whole keys of that index: for
// queue = $1 the index of all queues has the right order too, and where one queue has nearly
// everything the planner may walk through that to find the few of another.
func inQueue(q sq.SelectBuilder, queue string, first, last *DeadKey) sq.SelectBuilder {
	if first != nil {
		q = q.Where("(d.queue, d.failed_at, d.id) > (?, ?, ?)", queue, first.FailedAt, int64(first.ID))
	} else {
		q = q.Where(sq.GtOrEq{"d.queue": queue})
	}
	if last != nil {
		return q.Where("(d.queue, d.failed_at, d.id) < (?, ?, ?)", queue, last.FailedAt, int64(last.ID))
	}
	return q.Where(sq.LtOrEq{"d.queue": queue})
}
