package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// TreeCountCap is how many members of a tree [Store.TreeCounts] counts in each table before it gives up.
const TreeCountCap = 100_000

// TreeCounts says how many jobs of a tree, its root included, are in which state.
type TreeCounts struct {
	States map[tree.State]int64 // states that no job is in are not there
	// More reports that a table has more of the tree than TreeCountCap, so that the counts are only
	// what was seen.
	More bool
}

// treeCountsSQL reads the root by its primary key and the members by jobs_tree, dead_jobs_tree and history_tree,
// in their order, so that no other plan is cheaper, and never more than $2 of each. A member whose parent
// is not the root has a parent with a higher id than the root's: one probe of each index says whether the
// tree has a second level. In a tree of one level the root's counters say how its children ended. No locks.
const treeCountsSQL = `WITH root AS (
	SELECT state, completed, dead, cancelled, true AS counts FROM {s}.jobs WHERE id = $1
	UNION ALL SELECT state, completed, dead, cancelled, true FROM {s}.dead_jobs WHERE id = $1
	UNION ALL SELECT state, completed, dead, cancelled, false FROM {s}.history WHERE id = $1
), flat AS (
	SELECT completed, dead, cancelled FROM root
	WHERE counts
	AND NOT EXISTS (SELECT FROM {s}.jobs WHERE root_id = $1 AND parent_id > $1)
	AND NOT EXISTS (SELECT FROM {s}.dead_jobs WHERE root_id = $1 AND parent_id > $1)
	AND NOT EXISTS (SELECT FROM {s}.history WHERE root_id = $1 AND parent_id > $1)
)
SELECT 'root', state, 1::bigint FROM root
UNION ALL
SELECT 'counters', c.state, c.n FROM flat,
	LATERAL (VALUES ('completed', completed::bigint), ('dead', dead), ('cancelled', cancelled)) c (state, n)
UNION ALL
SELECT 'live', state, count(*) FROM (
	SELECT state FROM {s}.jobs WHERE root_id = $1 AND parent_id IS NOT NULL ORDER BY parent_id, id LIMIT $2
) m GROUP BY state
UNION ALL
SELECT 'dead', 'dead', count(*) FROM (
	SELECT FROM {s}.dead_jobs WHERE root_id = $1 AND parent_id IS NOT NULL AND NOT EXISTS (SELECT FROM flat)
	ORDER BY parent_id, id LIMIT $2
) m
UNION ALL
SELECT 'history', state, count(*) FROM (
	SELECT state FROM {s}.history WHERE root_id = $1 AND parent_id IS NOT NULL AND NOT EXISTS (SELECT FROM flat)
	ORDER BY parent_id, id LIMIT $2
) m GROUP BY state`

// TreeCounts counts the jobs of a tree by state. In a tree of one level whose root is live or dead, children
// that ended are counted from the root's counters: they are exact, at no cost, and include those whose
// history is gone. In any other tree they are counted as the tables have them. At most TreeCountCap rows
// of each table are read, which bounds the cost whatever the size of the tree. The error has
// [ErrNotFound] in its chain when nothing is left of the tree.
func (s *Store) TreeCounts(ctx context.Context, root tree.ID) (TreeCounts, error) {
	counts := TreeCounts{States: map[tree.State]int64{}}
	rows, err := s.pool.Query(ctx, s.sql(treeCountsSQL), int64(root), TreeCountCap+1)
	if err != nil {
		return counts, fmt.Errorf("count tree %d: %w", root, err)
	}
	read := map[string]int64{} // rows read, by table
	var from string
	var state tree.State
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&from, &state, &n}, func() error {
		if n > 0 {
			counts.States[state] += n
		}
		if from != "counters" {
			read[from] += n
			counts.More = counts.More || read[from] > TreeCountCap
		}
		return nil
	})
	if err == nil && len(counts.States) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return counts, fmt.Errorf("count tree %d: %w", root, err)
	}
	return counts, nil
}
