package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// Tally is how the jobs of a tree, its root included, have ended, counted row by row.
type Tally struct {
	Live       int64   `db:"live"`       // not ended, in whatever state
	Completed  int64   `db:"completed"`  // in the history; without those of which none is kept
	Cancelled  int64   `db:"cancelled"`  // in the history, likewise
	Dead       int64   `db:"dead"`       // in the dead-letter queue
	Finalizers int64   `db:"finalizers"` // of Completed, those that had children, or could have had
	FirstDead  tree.ID `db:"first_dead"` // the oldest dead letter; zero: none
}

// Jobs is how many there are in all.
func (t Tally) Jobs() int64 { return t.Live + t.Completed + t.Cancelled + t.Dead }

// tallySQL reads the root by the tables' primary keys and history_id, and the members by jobs_tree, dead_jobs_tree
// and history_tree, all of them. No locks.
const tallySQL = `SELECT count(*) FILTER (WHERE place = 'live') AS live,
	count(*) FILTER (WHERE place = 'history' AND state = 'completed') AS completed,
	count(*) FILTER (WHERE place = 'history' AND state = 'cancelled') AS cancelled,
	count(*) FILTER (WHERE place = 'dead') AS dead,
	count(*) FILTER (WHERE place = 'history' AND state = 'completed' AND round > 0) AS finalizers,
	coalesce(min(id) FILTER (WHERE place = 'dead'), 0) AS first_dead
FROM (
	SELECT 'live' AS place, id, state, round FROM {s}.jobs WHERE id = $1
	UNION ALL SELECT 'live', id, state, round FROM {s}.jobs WHERE root_id = $1 AND parent_id IS NOT NULL
	UNION ALL SELECT 'dead', id, state, round FROM {s}.dead_jobs WHERE id = $1
	UNION ALL SELECT 'dead', id, state, round FROM {s}.dead_jobs WHERE root_id = $1 AND parent_id IS NOT NULL
	UNION ALL SELECT 'history', id, state, round FROM {s}.history WHERE id = $1
	UNION ALL SELECT 'history', id, state, round FROM {s}.history WHERE root_id = $1 AND parent_id IS NOT NULL
) m`

// TreeTally counts every row of a tree, whatever that costs: it is for checks of what was done, not for a
// screen, which has [Store.TreeCounts]. A tree of which nothing is left has a tally of zeros.
func (s *Store) TreeTally(ctx context.Context, root tree.ID) (Tally, error) {
	rows, err := s.pool.Query(ctx, s.sql(tallySQL), int64(root))
	if err != nil {
		return Tally{}, fmt.Errorf("tally tree %d: %w", root, err)
	}
	t, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Tally])
	if err != nil {
		return Tally{}, fmt.Errorf("tally tree %d: %w", root, err)
	}
	return t, nil
}
