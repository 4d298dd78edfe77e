package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// JobRow is everything that is stored about one job. Strings that were never set are empty, and so are
// durations and numbers where zero says "none" or "the worker's default"; times that may be missing are
// pointers.
type JobRow struct {
	Place    Place      `db:"place"`
	ID       tree.ID    `db:"id"`
	RootID   tree.ID    `db:"root_id"`
	ParentID tree.ID    `db:"parent_id"` // zero: a root
	Kind     string     `db:"kind"`
	Queue    string     `db:"queue"`
	State    tree.State `db:"state"`
	Held     bool       `db:"held"`     // an operator's hold, apart from the state
	Due      bool       `db:"due"`      // scheduled, and its time has come
	Priority int        `db:"priority"` // lower first

	CreatedAt  time.Time     `db:"created_at"`
	RunAt      time.Time     `db:"run_at"`      // due time
	StartedAt  *time.Time    `db:"started_at"`  // of the newest attempt
	AgeFrom    *time.Time    `db:"age_from"`    // where the age budget starts; nil: CreatedAt
	StalledAt  *time.Time    `db:"stalled_at"`  // since when a dead child holds it up
	DeadlineAt *time.Time    `db:"deadline_at"` // what is left of the tree is cancelled then
	SealBy     *time.Time    `db:"seal_by"`     // unsealed, it is dead-lettered then
	Age        time.Duration `db:"age"`         // since it was created
	DueIn      time.Duration `db:"due_in"`      // until RunAt if it is scheduled; zero: now
	RunningFor time.Duration `db:"running_for"` // since StartedAt if it is running
	StalledFor time.Duration `db:"stalled_for"` // since StalledAt, if it is waiting

	Attempt       int             `db:"attempt"` // attempts started, the running one included
	MaxAttempts   int             `db:"max_attempts"`
	Lost          int             `db:"lost"` // times a worker died on it
	Snoozes       int             `db:"snoozes"`
	ClaimSeq      int64           `db:"claim_seq"`
	WorkerID      tree.WorkerID   `db:"worker_id"` // live: who runs it; else who ran it last, if that is known
	Timeout       time.Duration   `db:"timeout"`   // of one attempt; zero: the worker's default; tree.NoTimeout: none
	MaxAge        time.Duration   `db:"max_age"`   // retry budget in time; zero: none
	BackoffBase   time.Duration   `db:"backoff_base"`
	BackoffCap    time.Duration   `db:"backoff_cap"`
	BackoffFactor float32         `db:"backoff_factor"`
	BackoffJitter float32         `db:"backoff_jitter"`
	OnLost        tree.LostPolicy `db:"on_lost"`
	Progress      *float32        `db:"progress"` // 0 to 1

	Counters
	Round         int             `db:"round"`        // zero: works; n: the n-th roll-up of a finalizer
	ParentRound   int             `db:"parent_round"` // the parent's round that it was made for
	Sealed        bool            `db:"sealed"`       // no more children will come
	Closing       string          `db:"closing"`      // what becomes of it: "cancelled", or the reason of a dead letter
	ClosingBy     string          `db:"closing_by"`   // who says so; "": the engine itself
	ClosingWhy    string          `db:"closing_why"`
	OnDead        tree.DeadPolicy `db:"on_dead"`
	TolerateCount int             `db:"tolerate_count"` // so many dead children count as settled
	TolerateRatio float32         `db:"tolerate_ratio"` // or such a share of them

	DedupKey string          `db:"dedup_key"`
	ChildKey string          `db:"child_key"`
	GroupKey string          `db:"group_key"`
	LimitKey string          `db:"limit_key"`
	Effect   string          `db:"effect"` // the once-only step in flight
	KeepFor  *time.Duration  `db:"keep"`   // history retention; nil: the queue's; zero: none
	Tags     []string        `db:"tags"`
	Args     json.RawMessage `db:"args"` // the bytes that were inserted
	Meta     json.RawMessage `db:"meta"` // nil where there is none, as are the next two
	Trace    json.RawMessage `db:"trace"`

	Checkpoint json.RawMessage `db:"checkpoint"`

	// In the dead-letter queue.
	FailedAt    *time.Time  `db:"failed_at"`
	Kept        bool        `db:"kept"` // held against retention
	Reason      tree.Reason `db:"reason"`
	Fingerprint string      `db:"fingerprint"`
	DroppedKey  string      `db:"dropped_key"` // the dedup key that it held when it lived

	// In the history.
	FinishedAt *time.Time      `db:"finished_at"`
	Actor      string          `db:"actor"`
	Result     json.RawMessage `db:"result"`
	Skipped    bool            `db:"skipped"` // completed without running: Error has its guard's reason

	// Error is why it died, was cancelled or was skipped. A live job has none: see [Store.Errors].
	Error string `db:"error"`
}

// sharedColumns reads what jobs, dead_jobs and history have in common, under the names of JobRow's tags.
const sharedColumns = `id, root_id, coalesce(parent_id, 0) AS parent_id, kind, queue, state, held, priority,
	created_at, run_at, started_at, age_from, stalled_at, deadline_at, seal_by,
	attempt, max_attempts, lost, snoozes, claim_seq, coalesce(worker_id, 0) AS worker_id,
	CASE WHEN timeout_ms < 0 THEN -1 ELSE coalesce(timeout_ms, 0) * 1000000 END AS timeout,
	coalesce(max_age_ms, 0) * 1000000 AS max_age, coalesce(backoff_base_ms, 0) * 1000000 AS backoff_base,
	coalesce(backoff_cap_ms, 0) * 1000000 AS backoff_cap, coalesce(backoff_factor, 0) AS backoff_factor,
	coalesce(backoff_jitter, 0) AS backoff_jitter, on_lost, progress,
	pending, completed, dead, cancelled, removed, round, coalesce(parent_round, 1) AS parent_round, sealed,
	coalesce(closing, '') AS closing, coalesce(closing_by, '') AS closing_by, coalesce(closing_why, '') AS closing_why, on_dead, tolerate_count, tolerate_ratio,
	coalesce(dedup_key, '') AS dedup_key, coalesce(child_key, '') AS child_key,
	coalesce(group_key, '') AS group_key, coalesce(limit_key, '') AS limit_key, coalesce(effect, '') AS effect,
	keep_ms * 1000000 AS keep, tags, args, meta, trace, checkpoint`

// jobSQL finds a job by jobs_pkey, dead_jobs_pkey or each history partition's history_id index. No locks.
var jobSQL = `SELECT found.*,
	state = 'scheduled' AND run_at <= now() AS due,
	` + nanos("now() - created_at") + ` AS age,
	CASE WHEN state = 'scheduled' THEN greatest(` + nanos("run_at - now()") + `, 0) ELSE 0 END AS due_in,
	CASE WHEN state = 'running' THEN coalesce(` + nanos("now() - started_at") + `, 0) ELSE 0 END AS running_for,
	CASE WHEN state = 'waiting' THEN coalesce(` + nanos("now() - stalled_at") + `, 0) ELSE 0 END AS stalled_for
FROM (
	SELECT 'live' AS place, ` + sharedColumns + `, NULL::timestamptz AS failed_at, false AS kept, '' AS reason,
		'' AS fingerprint, '' AS dropped_key, NULL::timestamptz AS finished_at, '' AS actor, NULL::json AS result,
		'' AS error, false AS skipped
	FROM {s}.jobs WHERE id = $1
	UNION ALL
	SELECT 'dead', ` + sharedColumns + `, failed_at, kept, reason, coalesce(fingerprint, ''),
		coalesce(dropped_key, ''), NULL, '', NULL, coalesce(error, ''), false
	FROM {s}.dead_jobs WHERE id = $1
	UNION ALL
	(SELECT 'history', ` + sharedColumns + `, NULL, false, '', '', '', finished_at, coalesce(actor, ''), result,
		coalesce(error, ''), skipped
	FROM {s}.history WHERE id = $1 LIMIT 1)
) found LIMIT 1`

// Job reads one job from wherever it is. The error has [ErrNotFound] in its chain when it is nowhere.
func (s *Store) Job(ctx context.Context, id tree.ID) (*JobRow, error) {
	rows, err := s.pool.Query(ctx, s.sql(jobSQL), int64(id))
	if err != nil {
		return nil, fmt.Errorf("read job %d: %w", id, err)
	}
	job, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[JobRow])
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read job %d: %w", id, err)
	}
	return job, nil
}
