package store

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// Told is what a worker is to know about a job that it holds.
type Told struct {
	Fence
	// Held: it is not to start; if it has not, it is to go back.
	Held bool
	// Closing: it is to stop, and ends as this says: 'cancelled', or a [tree.Reason]. "": it may go on.
	Closing string
	Actor   string // who said so; "": the engine itself
	Why     string
}

// Told lists what a worker is to know about the jobs that it holds. By jobs_running; no locks.
func (s *Store) Told(ctx context.Context, worker tree.WorkerID) ([]Told, error) {
	rows, err := s.pool.Query(ctx, s.sql(`
		SELECT id, claim_seq, held, coalesce(closing, ''), coalesce(closing_by, ''), coalesce(closing_why, '')
		FROM {s}.jobs WHERE worker_id = $1::bigint AND state = 'running' AND (closing IS NOT NULL OR held)`), int64(worker))
	if err != nil {
		return nil, fmt.Errorf("read what is asked of worker %d: %w", worker, err)
	}
	told, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Told, err error) {
		return t, row.Scan(&t.ID, &t.Seq, &t.Held, &t.Closing, &t.Actor, &t.Why)
	})
	if err != nil {
		return nil, fmt.Errorf("read what is asked of worker %d: %w", worker, err)
	}
	return told, nil
}

// toldChannel is where workers hear that there is something for them in [Store.Told]; the payload is the worker's id.
func (s *Store) toldChannel() string { return s.channel("coppice_told") }

// tell hints to workers that they should look at [Store.Told]. A hint that does not arrive costs a beat.
func (s *Store) tell(ctx context.Context, workers []tree.WorkerID) {
	if len(workers) == 0 {
		return
	}
	ids := make([]string, len(workers))
	for i, w := range workers {
		ids[i] = strconv.FormatInt(int64(w), 10)
	}
	_, _ = s.pool.Exec(ctx, `SELECT pg_notify($1::text, w) FROM unnest($2::text[]) AS w`, s.toldChannel(), ids)
}
