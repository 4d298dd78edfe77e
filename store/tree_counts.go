package store

import (
	"context"
	"fmt"

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

// treeCount is one row of treeCountsSQL.
type treeCount struct {
	Place Place      `db:"place"` // the table whose members were counted; "": the root or its counters
	State tree.State `db:"state"`
	Jobs  int64      `db:"jobs"`
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
SELECT '' AS place, state, 1::bigint AS jobs FROM root
UNION ALL
SELECT '', c.state, c.n FROM flat,
	LATERAL (VALUES ('completed', completed::bigint), ('dead', dead), ('cancelled', cancelled)) c (state, n)
WHERE c.n > 0
UNION ALL
SELECT 'live', state, count(*) FROM (
	SELECT state FROM {s}.jobs WHERE root_id = $1 AND parent_id IS NOT NULL ORDER BY parent_id, id LIMIT $2
) m GROUP BY state
UNION ALL
SELECT 'dead', state, count(*) FROM (
	SELECT state FROM {s}.dead_jobs WHERE root_id = $1 AND parent_id IS NOT NULL AND NOT EXISTS (SELECT FROM flat)
	ORDER BY parent_id, id LIMIT $2
) m GROUP BY state
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
	rows, err := readRows[treeCount](ctx, s, treeCountsSQL, int64(root), TreeCountCap+1)
	if err == nil && len(rows) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return TreeCounts{}, fmt.Errorf("count tree %d: %w", root, err)
	}
	counts := TreeCounts{States: map[tree.State]int64{}}
	read := map[Place]int64{}
	for _, r := range rows {
		counts.States[r.State] += r.Jobs
		if read[r.Place] += r.Jobs; r.Place != "" && read[r.Place] > TreeCountCap {
			counts.More = true
		}
	}
	return counts, nil
}
