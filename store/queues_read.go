package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// QueueRow is the state of one queue. Every live job is in exactly one of Ready, Scheduled, Due, Running,
// Waiting and Held.
type QueueRow struct {
	Name      string `db:"name"`
	Ready     int64  `db:"ready"`     // may be claimed now
	Scheduled int64  `db:"scheduled"` // due later
	Due       int64  `db:"due"`       // scheduled, and its time has come: the next promotion takes it
	Running   int64  `db:"running"`   //
	Waiting   int64  `db:"waiting"`   // for children
	Held      int64  `db:"held"`      // by an operator, in whatever state but running
	Dead      int64  `db:"dead"`      // in the dead-letter queue

	// OldestReady is how long the job that has been due longest has waited to be claimed; zero: none waits.
	OldestReady time.Duration `db:"oldest_ready"`

	PausedAt         *time.Time     `db:"paused_at"` // nil: it is not paused
	PausedBy         string         `db:"paused_by"`
	MaxRunning       int            `db:"max_running"`       // across all processes; zero: no limit
	HistoryRetention *time.Duration `db:"history_retention"` // nil: tree.DefaultHistoryRetention; zero: none
	DeadRetention    *time.Duration `db:"dead_retention"`    // nil: for ever
	DeadFloor        *time.Duration `db:"dead_floor"`        // nil: none
}

// queuesSQL reads jobs once, in sequence and by several processes where the server allows it, and
// dead_jobs_queue whole, index only where vacuum has been. No locks.
var queuesSQL = `WITH live AS (
	SELECT queue,
		count(*) FILTER (WHERE state = 'ready' AND NOT held) AS ready,
		count(*) FILTER (WHERE state = 'scheduled' AND NOT held AND run_at > now()) AS scheduled,
		count(*) FILTER (WHERE state = 'scheduled' AND NOT held AND run_at <= now()) AS due,
		count(*) FILTER (WHERE state = 'running') AS running,
		count(*) FILTER (WHERE state = 'waiting' AND NOT held) AS waiting,
		count(*) FILTER (WHERE state <> 'running' AND held) AS held,
		min(run_at) FILTER (WHERE state = 'ready' AND NOT held) AS oldest
	FROM {s}.jobs GROUP BY queue
), dead AS (
	SELECT queue, count(*) AS dead FROM {s}.dead_jobs GROUP BY queue
)
SELECT name, coalesce(ready, 0) AS ready, coalesce(scheduled, 0) AS scheduled, coalesce(due, 0) AS due,
	coalesce(running, 0) AS running, coalesce(waiting, 0) AS waiting, coalesce(held, 0) AS held,
	coalesce(dead, 0) AS dead, coalesce(greatest(` + nanos("now() - oldest") + `, 0), 0) AS oldest_ready,
	paused_at, coalesce(paused_by, '') AS paused_by, coalesce(max_running, 0) AS max_running,
	` + nanos("history_retention") + ` AS history_retention, ` + nanos("dead_retention") + ` AS dead_retention,
	` + nanos("dead_floor") + ` AS dead_floor
FROM (SELECT name FROM {s}.queues UNION SELECT queue FROM live UNION SELECT queue FROM dead) n
LEFT JOIN {s}.queues q USING (name)
LEFT JOIN live ON live.queue = n.name
LEFT JOIN dead ON dead.queue = n.name
ORDER BY name`

// Queues lists every queue that has a row, a live job or a dead letter, by name.
//
// The counts are exact, and cost one pass over the live jobs and one over an index of the dead letters,
// however many queues there are: ask every few seconds, not for every job.
func (s *Store) Queues(ctx context.Context) ([]QueueRow, error) {
	rows, err := s.pool.Query(ctx, s.sql(queuesSQL))
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByName[QueueRow])
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	return out, nil
}
