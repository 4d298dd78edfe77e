package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// Lease says how a worker process stands with its lease.
type Lease string

// The states of a lease.
const (
	LeaseHeld     Lease = "held"     // it beats in time
	LeaseStopping Lease = "stopping" // it beats, and takes no more jobs
	LeaseOver     Lease = "over"     // it was silent for too long: what it ran will be taken back
)

// WorkerRow is one worker process.
type WorkerRow struct {
	ID        tree.WorkerID `db:"id"`
	Name      string        `db:"name"`
	Host      string        `db:"host"`
	PID       int           `db:"pid"`
	Queues    []string      `db:"queues"`
	Kinds     []string      `db:"kinds"`
	Lease     Lease         `db:"lease"`
	StartedAt time.Time     `db:"started_at"`
	BeatAt    time.Time     `db:"beat_at"`
	SilentFor time.Duration `db:"silent_for"` // since BeatAt
	ExpiresIn time.Duration `db:"expires_in"` // until the lease is over; negative: since it was
	Running   int64         `db:"running"`    // jobs that name it
}

// workersSQL reads the few rows of workers whole, and jobs_running once: as many entries as jobs run. No locks.
var workersSQL = `SELECT id, name, host, pid, queues, kinds,
	CASE WHEN expires_at <= now() THEN 'over' WHEN stopping THEN 'stopping' ELSE 'held' END AS lease,
	started_at, beat_at, ` + nanos("now() - beat_at") + ` AS silent_for,
	` + nanos("expires_at - now()") + ` AS expires_in, coalesce(running, 0) AS running
FROM {s}.workers w
LEFT JOIN (SELECT worker_id, count(*) AS running FROM {s}.jobs WHERE state = 'running' GROUP BY worker_id) j
	ON j.worker_id = w.id
ORDER BY id`

// Workers lists every worker process that has a row, the oldest first: those that stopped as they should
// have none.
func (s *Store) Workers(ctx context.Context) ([]WorkerRow, error) {
	rows, err := s.pool.Query(ctx, s.sql(workersSQL))
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByName[WorkerRow])
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	return out, nil
}
