package store

import (
	"context"
	"fmt"

	"github.com/coppicehq/coppice/tree"
)

// ChildRow is one child in a list.
type ChildRow struct {
	Place       Place       `db:"place"`
	ID          tree.ID     `db:"id"`
	Kind        string      `db:"kind"`
	State       tree.State  `db:"state"`
	Queue       string      `db:"queue"`
	ChildKey    string      `db:"child_key"` // "": none
	Held        bool        `db:"held"`
	Round       int         `db:"round"` // above zero: it has, or had, children of its own
	Attempt     int         `db:"attempt"`
	MaxAttempts int         `db:"max_attempts"`
	Reason      tree.Reason `db:"reason"` // of a dead letter
	Counters
	// LastError is the start, at most 500 characters, of why it died or was cancelled; of a live job, of
	// what failed last since it was inserted or restored. "": nothing failed.
	LastError string `db:"last_error"`
}

// childColumns reads what the three tables have in common.
const childColumns = `id, kind, state, queue, coalesce(child_key, '') AS child_key, held, round, attempt, max_attempts,
	pending, completed, dead, cancelled, removed`

// childRange is the part of an index on (root_id, parent_id, id) that has the children $2 in tree $1 above $3.
const childRange = `WHERE parent_id IS NOT NULL AND (root_id, parent_id, id) > ($1, $2, $3)
		AND (root_id, parent_id) <= ($1, $2) ORDER BY root_id, parent_id, id LIMIT $4`

// childrenSQL merges three ranges that are in id order already, each cut to the page's size: jobs_tree,
// dead_jobs_tree, and each history partition's history_tree. The ranges are written as comparisons of whole index
// keys, because for root_id = $1 AND parent_id = $2 the primary key has the right order too, and the planner may
// walk through everyone's jobs by it. Only the rows of the page look up their last error, by job_errors_job. No
// locks.
const childrenSQL = `SELECT place, ` + childColumns + `, reason, coalesce(left(coalesce(p.error, e.error), 500), '') AS last_error
FROM (
	(SELECT 'live' AS place, ` + childColumns + `, '' AS reason, NULL AS error,
		CASE WHEN attempt + lost > 0 THEN coalesce(age_from, created_at) END AS errors_from
	FROM {s}.jobs ` + childRange + `)
	UNION ALL
	(SELECT 'dead', ` + childColumns + `, reason, error, NULL
	FROM {s}.dead_jobs ` + childRange + `)
	UNION ALL
	(SELECT 'history', ` + childColumns + `, '', error, NULL
	FROM {s}.history ` + childRange + `)
	ORDER BY id LIMIT $4
) p
LEFT JOIN LATERAL (
	SELECT error FROM {s}.job_errors WHERE job_id = p.id AND at >= p.errors_from ORDER BY at DESC LIMIT 1
) e ON true
ORDER BY id`

// Children lists the children of one parent in a tree, live, dead and finished, oldest first, from the first
// id above after (zero: from the start). limit is 1 to MaxPage; zero: DefaultPage. It also returns the
// after of the next page; zero when there is none. A parent that does not exist has no children.
func (s *Store) Children(ctx context.Context, root, parent, after tree.ID, limit int) ([]ChildRow, tree.ID, error) {
	limit = pageSize(limit)
	out, err := readRows[ChildRow](ctx, s, childrenSQL, int64(root), int64(parent), int64(after), limit+1)
	if err != nil {
		return nil, 0, fmt.Errorf("read children of job %d: %w", parent, err)
	}
	out, next := page(out, limit, func(c ChildRow) tree.ID { return c.ID })
	return out, next, nil
}
