package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// Ended is how a job ended.
type Ended struct {
	ID     tree.ID
	State  tree.State // completed, cancelled or dead; "": not known, since its history was not kept, or there was no such job
	Result json.RawMessage
	// Skipped: it completed without running.
	Skipped bool
	Reason  tree.Reason // of a dead letter
	Actor   string      // who cancelled it; "": itself, or the engine
	Error   string      // why it died, was cancelled or was skipped
}

// awaitSQL marks live jobs, so that their end is told, by jobs_pkey. It waits for nobody (SKIP LOCKED): a caller's transaction
// may hold one row for long, and all who wait by one client share this statement. What it skips is asked for again.
const awaitSQL = `
UPDATE {s}.jobs j SET awaited = true
FROM unnest($1::bigint[]) AS u(id)
CROSS JOIN LATERAL (SELECT l.id FROM {s}.jobs l WHERE l.id = u.id AND NOT l.awaited FOR UPDATE SKIP LOCKED) AS l
WHERE j.id = l.id`

// endedSQL looks for each job where it may be: by jobs_pkey, dead_jobs_pkey and history_id of every partition. No locks.
const endedSQL = `
SELECT u.id, coalesce(d.state, h.state, ''), h.result, coalesce(h.skipped, false), coalesce(d.reason, ''),
	coalesce(h.actor, ''), coalesce(d.error, h.error, '')
FROM unnest($1::bigint[]) AS u(id)
LEFT JOIN LATERAL (SELECT true AS live FROM {s}.jobs j WHERE j.id = u.id) j ON true
LEFT JOIN LATERAL (SELECT * FROM {s}.dead_jobs d WHERE d.id = u.id) d ON true
LEFT JOIN LATERAL (SELECT * FROM {s}.history h WHERE h.id = u.id LIMIT 1) h ON true
WHERE j.live IS NULL`

// Await lists those of some jobs that have ended, and sees to it that the ends of the others are told ([Store.ListenEnded]).
// At most a few thousand at once are sensible. Locks: the live ones that nobody waited for yet, unless others
// have them locked: those are marked by a later call.
func (s *Store) Await(ctx context.Context, ids []tree.ID) ([]Ended, error) {
	sorted := make([]int64, len(ids))
	for i, id := range ids {
		sorted[i] = int64(id)
	}
	slices.Sort(sorted)
	var out []Ended
	err := s.pipe(ctx, step{sql: fixedPlan}, step{sql: s.sql(awaitSQL), args: []any{sorted}}, step{
		sql: s.sql(endedSQL), args: []any{sorted},
		rows: func(rows pgx.Rows) (err error) {
			out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Ended, err error) {
				return e, row.Scan(&e.ID, &e.State, &e.Result, &e.Skipped, &e.Reason, &e.Actor, &e.Error)
			})
			return err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("wait for jobs: %w", err)
	}
	return out, nil
}

// endedChannel is where the ends of awaited jobs are told; the payload is a job's id.
func (s *Store) endedChannel() string { return s.channel("coppice_ended") }

// NotifyEnded hints to those who wait that jobs have ended.
func (s *Store) NotifyEnded(ctx context.Context, ids []tree.ID) error {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.FormatInt(int64(id), 10)
	}
	if _, err := s.pool.Exec(ctx, `SELECT pg_notify($1::text, id) FROM unnest($2::text[]) AS id`, s.endedChannel(), words); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// ListenEnded hands the ids of awaited jobs that ended to ended until ctx ends or the connection breaks, on a connection of
// its own that is made with the pool's settings. ready is called once it listens.
func (s *Store) ListenEnded(ctx context.Context, ready func(), ended func(tree.ID)) error {
	return s.listen(ctx, ready, map[string]func(string){s.endedChannel(): func(payload string) {
		if id, err := strconv.ParseInt(payload, 10, 64); err == nil {
			ended(tree.ID(id))
		}
	}})
}
