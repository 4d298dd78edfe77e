package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// ResultRow is one child's result, as its parent's roll-up reads it.
type ResultRow struct {
	ChildID tree.ID
	Kind    string
	Key     string // "": none
	Value   []byte // JSON
}

// Results reads a page of a parent's results in child order, behind the child after. By results_pkey, from
// its place on; locks nothing.
func (s *Store) Results(ctx context.Context, parent, after tree.ID, limit int) ([]ResultRow, error) {
	rows, err := s.pool.Query(ctx, s.sql(`
		SELECT child_id, kind, coalesce(child_key, ''), value FROM {s}.results
		WHERE parent_id = $1::bigint AND child_id > $2::bigint ORDER BY child_id LIMIT $3::integer`),
		int64(parent), int64(after), int32(limit))
	if err != nil {
		return nil, fmt.Errorf("read results of job %d: %w", parent, err)
	}
	page, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ResultRow])
	if err != nil {
		return nil, fmt.Errorf("read results of job %d: %w", parent, err)
	}
	return page, nil
}

// DeadChild is a child in the dead-letter queue, as its parent's roll-up may list it.
type DeadChild struct {
	ID     tree.ID
	Kind   string
	Key    string // "": none
	Reason tree.Reason
	Error  string
}

// DeadChildren reads a page of a parent's dead children in child order, behind the child after. By
// dead_jobs_tree; locks nothing.
func (s *Store) DeadChildren(ctx context.Context, root, parent, after tree.ID, limit int) ([]DeadChild, error) {
	rows, err := s.pool.Query(ctx, s.sql(`
		SELECT id, kind, coalesce(child_key, ''), reason, coalesce(error, '') FROM {s}.dead_jobs
		WHERE root_id = $1::bigint AND parent_id = $2::bigint AND id > $3::bigint ORDER BY id LIMIT $4::integer`),
		int64(root), int64(parent), int64(after), int32(limit))
	if err != nil {
		return nil, fmt.Errorf("read dead children of job %d: %w", parent, err)
	}
	page, err := pgx.CollectRows(rows, pgx.RowToStructByPos[DeadChild])
	if err != nil {
		return nil, fmt.Errorf("read dead children of job %d: %w", parent, err)
	}
	return page, nil
}
