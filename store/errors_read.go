package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// AttemptError is one failed attempt of a job.
type AttemptError struct {
	At       time.Time     `db:"at"`
	Age      time.Duration `db:"age"`     // since At
	Attempt  int           `db:"attempt"` // from 1 in each of the job's lives: a restore starts again
	Round    int           `db:"round"`
	Outcome  tree.Outcome  `db:"outcome"`
	WorkerID tree.WorkerID `db:"worker_id"` // zero: not known
	Error    string        `db:"error"`     // at most tree.MaxErrorBytes
	Stack    string        `db:"stack"`     // of a panic; at most tree.MaxStackBytes
}

// errorsReadSQL walks job_errors_job backwards and sorts only what happened at one time. No locks.
var errorsReadSQL = `SELECT at, ` + nanos("now() - at") + ` AS age, attempt, round, outcome,
	coalesce(worker_id, 0) AS worker_id, error, coalesce(stack, '') AS stack
FROM {s}.job_errors WHERE job_id = $1 ORDER BY at DESC, round DESC, attempt DESC LIMIT $2`

// Errors lists the newest failed attempts of a job, newest first, those of its lives before a restore
// included. limit is 1 to MaxPage; zero: DefaultPage. A job without failures, or without a row, has none.
func (s *Store) Errors(ctx context.Context, id tree.ID, limit int) ([]AttemptError, error) {
	rows, err := s.pool.Query(ctx, s.sql(errorsReadSQL), int64(id), pageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("read errors of job %d: %w", id, err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByName[AttemptError])
	if err != nil {
		return nil, fmt.Errorf("read errors of job %d: %w", id, err)
	}
	return out, nil
}
