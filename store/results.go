package store

import (
	"context"
	"fmt"

	"github.com/coppicehq/coppice/tree"
)

// ResultRow is one child's result, as its parent's roll-up reads it.
type ResultRow struct {
	ChildID tree.ID `db:"child_id"`
	Kind    string  `db:"kind"`
	Key     string  `db:"child_key"` // "": none
	Value   []byte  `db:"value"`     // JSON
}

// resultsSQL walks results_pkey from its place on; locks nothing.
const resultsSQL = `SELECT child_id, kind, coalesce(child_key, '') AS child_key, value FROM {s}.results
	WHERE parent_id = $1::bigint AND child_id > $2::bigint AND value IS NOT NULL
		AND ($3::integer = 0 OR round = $3::integer)
	ORDER BY child_id LIMIT $4::integer`

// Results reads a page of a parent's results in child order, behind the child after: those of the children that
// were made for one round of the parent, or of all for round 0.
func (s *Store) Results(ctx context.Context, parent tree.ID, round int, after tree.ID, limit int) ([]ResultRow, error) {
	page, err := readRows[ResultRow](ctx, s, resultsSQL, int64(parent), int64(after), int32(round), int32(limit))
	if err != nil {
		return nil, fmt.Errorf("read results of job %d: %w", parent, err)
	}
	return page, nil
}

// DeadChild is a child in the dead-letter queue, as its parent's roll-up may list it.
type DeadChild struct {
	ID     tree.ID     `db:"id"`
	Kind   string      `db:"kind"`
	Key    string      `db:"child_key"` // "": none
	Reason tree.Reason `db:"reason"`
	Error  string      `db:"error"`
}

// deadChildrenSQL walks dead_jobs_tree from its place on; locks nothing.
const deadChildrenSQL = `SELECT id, kind, coalesce(child_key, '') AS child_key, reason, coalesce(error, '') AS error
	FROM {s}.dead_jobs
	WHERE root_id = $1::bigint AND parent_id = $2::bigint AND id > $3::bigint ORDER BY id LIMIT $4::integer`

// DeadChildren reads a page of a parent's dead children in child order, behind the child after.
func (s *Store) DeadChildren(ctx context.Context, root, parent, after tree.ID, limit int) ([]DeadChild, error) {
	page, err := readRows[DeadChild](ctx, s, deadChildrenSQL, int64(root), int64(parent), int64(after), int32(limit))
	if err != nil {
		return nil, fmt.Errorf("read dead children of job %d: %w", parent, err)
	}
	return page, nil
}
