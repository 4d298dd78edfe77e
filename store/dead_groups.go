package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// MaxDeadGroups is the most groups that [Store.DeadGroups] returns.
const MaxDeadGroups = 1000

// DeadGroup is what dead letters of one queue, kind and reason have in common.
type DeadGroup struct {
	Queue    string        `db:"queue"`
	Kind     string        `db:"kind"`
	Reason   tree.Reason   `db:"reason"`
	Count    int64         `db:"count"`
	First    time.Time     `db:"first"`     // when the first of them died
	Last     time.Time     `db:"last"`      // and the last
	FirstAge time.Duration `db:"first_age"` // since First
	LastAge  time.Duration `db:"last_age"`  // since Last
	Sample   tree.ID       `db:"sample"`    // one of them, to look at: the one with the highest id
}

// DeadGroups counts dead letters by queue, kind and reason, the largest group first, and reports whether there
// are more groups than the MaxDeadGroups that it returns. The error has [ErrBadFilter] in its chain when the
// filter was refused.
//
// The counts are exact, and cost one pass over what the filter means: of a tree by dead_jobs_tree, of a
// queue or a time by dead_jobs_queue or dead_jobs_failed where that is shorter than the table, else of
// the table in sequence, by several processes where the server allows it. No locks.
func (s *Store) DeadGroups(ctx context.Context, f DeadFilter) (groups []DeadGroup, more bool, err error) {
	groups, err = s.deadGroups(ctx, f)
	if err != nil {
		return nil, false, fmt.Errorf("group dead letters: %w", err)
	}
	if len(groups) > MaxDeadGroups {
		return groups[:MaxDeadGroups], true, nil
	}
	return groups, false, nil
}

func (s *Store) deadGroups(ctx context.Context, f DeadFilter) ([]DeadGroup, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if err := s.locate(ctx, &f); err != nil {
		return nil, err
	}
	q := f.deadFrom("d.queue, d.kind, d.reason, count(*) AS count", "min(d.failed_at) AS first, max(d.failed_at) AS last",
		nanos("now() - min(d.failed_at)")+" AS first_age", nanos("now() - max(d.failed_at)")+" AS last_age",
		"max(d.id) AS sample")
	first, last := f.span()
	if f.Queue != "" {
		q = inQueue(q, f.Queue, first, last)
	} else {
		q = inAnyQueue(q, first, last)
	}
	text, args, err := q.GroupBy("d.queue, d.kind, d.reason").
		OrderBy("count(*) DESC, d.queue, d.kind, d.reason").Limit(MaxDeadGroups + 1).ToSql()
	if err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, s.sql(text), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[DeadGroup])
}
