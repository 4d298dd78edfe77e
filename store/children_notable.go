package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// NotableChild is a child as [Store.NotableChildren] lists it.
type NotableChild struct {
	ChildRow
	Stalled bool `db:"stalled"` // a dead child of its own holds it up
}

const (
	notableLive    = 2_000  // live children that are looked at, from the oldest on
	notableRunning = 10_000 // running jobs, of whatever tree, among which children are looked for
)

// notableSQL ranks the children of one parent. No index knows what a person wants to see first, so of the live ones the
// oldest are read, by jobs_tree, and besides those that are stalled (jobs_stalled) or run (jobs_running); they are
// sorted down to the page. Of dead_jobs_tree and of each history partition's history_tree a page is read. Only the rows of
// the page look up their last error. No locks.
const notableSQL = `WITH live AS MATERIALIZED (
	(SELECT id FROM {s}.jobs WHERE root_id = $1 AND parent_id = $2 ORDER BY id LIMIT $4)
	UNION
	(SELECT id FROM {s}.jobs WHERE root_id = $1 AND parent_id = $2 AND state = 'waiting' AND stalled_at IS NOT NULL ORDER BY stalled_at LIMIT $3)
	UNION
	(SELECT id FROM (
		SELECT id, root_id, parent_id FROM {s}.jobs WHERE state = 'running' ORDER BY worker_id, id LIMIT $5
	) r WHERE root_id = $1 AND parent_id = $2 ORDER BY id LIMIT $3)
)
SELECT place, ` + childColumns + `, reason, stalled,
	coalesce(left(coalesce(p.error, e.error), 500), '') AS last_error
FROM (
	(SELECT 'dead' AS place, ` + childColumns + `, reason, false AS stalled, error,
		NULL::timestamptz AS errors_from, 0 AS rank
	FROM {s}.dead_jobs WHERE root_id = $1 AND parent_id = $2 ORDER BY id LIMIT $3)
	UNION ALL
	(SELECT 'live', ` + childColumns + `, '', ` + stalled + `, NULL,
		CASE WHEN attempt + lost > 0 THEN coalesce(age_from, created_at) END,
		CASE WHEN ` + stalled + ` THEN 1 WHEN state = 'running' THEN 2 WHEN state = 'waiting' THEN 3
			WHEN attempt + lost > 0 THEN 4 WHEN state = 'ready' THEN 5 ELSE 6 END AS rank
	FROM {s}.jobs WHERE id IN (SELECT id FROM live) ORDER BY rank, id LIMIT $3)
	UNION ALL
	(SELECT 'history', ` + childColumns + `, '', false, error, NULL, 7
	FROM {s}.history WHERE root_id = $1 AND parent_id = $2 ORDER BY id LIMIT $3)
	ORDER BY rank, id LIMIT $3
) p
LEFT JOIN LATERAL (
	SELECT error FROM {s}.job_errors WHERE job_id = p.id AND at >= p.errors_from ORDER BY at DESC LIMIT 1
) e ON true
ORDER BY rank, id`

// NotableChildren lists the children of one parent in a tree, those first that a person looks for: the dead, the
// stalled, the running, other finalizers that wait, what failed before and is tried again, what is
// ready, what is due later, and last what has ended; each oldest first. limit is 1 to MaxPage; zero: DefaultPage.
// Of more than 2,000 live children it knows the oldest, and those that are stalled or run. Fewer rows than limit are
// all there are.
func (s *Store) NotableChildren(ctx context.Context, root, parent tree.ID, limit int) ([]NotableChild, error) {
	rows, err := s.pool.Query(ctx, s.sql(notableSQL), int64(root), int64(parent), pageSize(limit), notableLive, notableRunning)
	if err != nil {
		return nil, fmt.Errorf("read notable children of job %d: %w", parent, err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByName[NotableChild])
	if err != nil {
		return nil, fmt.Errorf("read notable children of job %d: %w", parent, err)
	}
	return out, nil
}

// liveStatesSQL reads the live children of one parent, by jobs_tree. No locks.
const liveStatesSQL = `SELECT state, count(*) FROM (
	SELECT state FROM {s}.jobs WHERE root_id = $1 AND parent_id = $2 LIMIT $3
) AS counted GROUP BY state`

// LiveStates counts the live children of one parent by state, at most most of them: any, where there are more. How many
// there are, and how many have ended, and how, the parent's own [Counters] say.
func (s *Store) LiveStates(ctx context.Context, root, parent tree.ID, most int) (map[tree.State]int64, error) {
	rows, err := s.pool.Query(ctx, s.sql(liveStatesSQL), int64(root), int64(parent), most)
	if err != nil {
		return nil, fmt.Errorf("count live children of job %d: %w", parent, err)
	}
	states := map[tree.State]int64{}
	var state tree.State
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error {
		states[state] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count live children of job %d: %w", parent, err)
	}
	return states, nil
}
