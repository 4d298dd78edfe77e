package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// WorkerInfo describes a worker process to those who look.
type WorkerInfo struct {
	Name   string // the operator's name for it, not unique
	Host   string
	PID    int
	Queues []string
	Kinds  []string
	Lease  time.Duration // how long it may stay silent
}

// Register gives a worker process its id and its lease, and makes the rows of its queues. An id names one run
// of one process and is never used again.
func (s *Store) Register(ctx context.Context, w WorkerInfo) (tree.WorkerID, error) {
	var id int64
	err := s.atomically(ctx, func(tx pgx.Tx) error {
		if err := s.makeQueues(ctx, tx, w.Queues); err != nil {
			return err
		}
		return tx.QueryRow(ctx, s.sql(`
			INSERT INTO {s}.workers (id, expires_at, pid, name, host, queues, kinds)
			VALUES (nextval({workers}), now() + $1::bigint * interval '1 millisecond', $2::integer, $3::text, $4::text,
				$5::text[], $6::text[])
			RETURNING id`),
			millis(w.Lease), int32(w.PID), w.Name, w.Host, w.Queues, w.Kinds).Scan(&id)
	})
	if err != nil {
		return 0, fmt.Errorf("register worker: %w", err)
	}
	return tree.WorkerID(id), nil
}

// Beat renews a worker's lease: one UPDATE by workers_pkey, which locks that row alone. It answers false when
// the worker's row is gone: others have taken back what it ran.
func (s *Store) Beat(ctx context.Context, id tree.WorkerID, lease time.Duration, stopping bool) (bool, error) {
	tag, err := s.pool.Exec(ctx, s.sql(`
		UPDATE {s}.workers SET beat_at = now(), expires_at = now() + $2::bigint * interval '1 millisecond', stopping = $3::boolean
		WHERE id = $1::bigint`), int64(id), millis(lease), stopping)
	if err != nil {
		return false, fmt.Errorf("renew lease: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// Unregister removes a worker that holds no jobs (jobs_running). One that does is left for its lease to run out:
// a job must never name a worker that is not there.
func (s *Store) Unregister(ctx context.Context, id tree.WorkerID) error {
	_, err := s.pool.Exec(ctx, s.sql(`
		DELETE FROM {s}.workers WHERE id = $1::bigint
			AND NOT EXISTS (SELECT FROM {s}.jobs WHERE state = 'running' AND worker_id = $1::bigint)`), int64(id))
	if err != nil {
		return fmt.Errorf("unregister worker: %w", err)
	}
	return nil
}

// Holding is a claim that a worker holds.
type Holding struct {
	Fence
	Queue string
	Keys  Keys
}

// ClaimsOf lists what the database says a worker holds, ascending. By jobs_running; locks nothing.
func (s *Store) ClaimsOf(ctx context.Context, id tree.WorkerID) ([]Holding, error) {
	rows, err := s.pool.Query(ctx, s.sql(`
		SELECT id, claim_seq, queue, coalesce(group_key, ''), coalesce(limit_key, '')
		FROM {s}.jobs WHERE state = 'running' AND worker_id = $1::bigint ORDER BY id`), int64(id))
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	claims, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h Holding, err error) {
		return h, row.Scan(&h.ID, &h.Seq, &h.Queue, &h.Keys.Group, &h.Keys.Limit)
	})
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	return claims, nil
}
