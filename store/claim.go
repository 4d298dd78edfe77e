package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/coppicehq/coppice/tree"
)

// Fence names one claim of one job. A write under a fence that has been passed changes nothing.
type Fence struct {
	ID  tree.ID
	Seq int64
}

// Claim is a job that a worker has just taken, with what it needs to run it.
type Claim struct {
	Fence
	RootID      tree.ID
	ParentID    tree.ID // 0: a root
	Kind        string
	Queue       string
	Args        []byte
	Tags        []string
	Meta        []byte // JSON, nil: none
	Attempt     int    // this one, from 1
	MaxAttempts int
	Round       int           // 0: works; else finalizes
	Timeout     time.Duration // 0: the worker decides; negative: none
	AgeLeft     time.Duration // what was left of the retry budget in time at the claim; meaningful with HasAge
	HasAge      bool
	Backoff     *tree.Backoff // nil: the worker decides
	KeepFor     *time.Duration
	Checkpoint  []byte // JSON that an earlier attempt recorded; nil: none
	Keys        Keys
	Completed   int // children, by how they ended
	Dead        int
	Cancelled   int
	Removed     int
	CreatedAt   time.Time
	Position    Position
	TakenAt     time.Time // for the caller, who may note when it had the claim; Claim leaves it zero
}

// InTree reports whether settling the job touches another job's row.
func (c *Claim) InTree() bool { return c.ParentID != 0 || c.Round > 0 }

// Position is a place in a queue's order: by priority, then due time, then id.
type Position struct {
	Priority int16
	RunAt    time.Time
	ID       tree.ID
}

func (p Position) compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Priority, q.Priority), p.RunAt.Compare(q.RunAt), cmp.Compare(p.ID, q.ID))
}

// ClaimRequest says what to claim.
type ClaimRequest struct {
	WorkerID      tree.WorkerID // who claims; gets nothing without a lease
	Queue         string        // the one queue to claim from
	Limit         int           // at most so many jobs, 1 or more
	WorkKinds     []string      // kinds whose Work handler the worker has
	FinalizeKinds []string      // kinds whose Finalize handler it has
	After         *Position     // start behind this place instead of at the front of the queue
	// Free is how many slots are free: a careful claim takes no more, since a claimed job that waits for a slot would keep
	// the room from others. 0: as many as Limit; negative: none.
	Free int
	// Promote first makes ready what has come due, at most Limit jobs and at least promoteFloor, and
	// asks when the next will be.
	Promote bool
}

// Claimed is what a claim brought.
type Claimed struct {
	Jobs []Claim // in the queue's order
	// Due is how many scheduled jobs were made ready on the way.
	Due int
	// NextDue is when the next scheduled job of the queue comes due, or the next token for a job that was parked for want of
	// one, from now; negative: none is known. What is scheduled is looked for when Promote is asked for.
	NextDue time.Duration
	// Careful: the queue is limited, or has jobs with a group or a limit that may have room; nothing should be claimed ahead.
	Careful bool
	// More: the claim was careful, and has not looked at all jobs that may have room.
	More bool
	// Asked is how many jobs the claim could have brought: less than Limit if it was careful.
	Asked int
	// Woken are other queues in which jobs have found room, ascending.
	Woken []string
	// NoLease: the worker's lease is over, or its row gone, and so it got nothing. Only set when Promote was asked for.
	NoLease bool
}

const promoteFloor = 100

// claimSQL picks by jobs_ready, in its order, locking only what it takes: FOR UPDATE SKIP LOCKED never
// waits, so it needs no order with others. Jobs of kinds that this worker does not know stay for one
// that does. The paused queue is looked up once (queues_pkey).
const claimSQL = `
WITH picked AS MATERIALIZED (
	SELECT j.id
	FROM {s}.jobs j
	WHERE j.queue = $1::text AND j.state = 'ready' AND NOT j.held AND j.group_key IS NULL AND j.limit_key IS NULL
		AND (j.priority, j.run_at, j.id) > ($2::smallint, $3::timestamptz, $4::bigint)
		AND ((j.round = 0 AND j.kind = ANY ($5::text[])) OR (j.round > 0 AND j.kind = ANY ($6::text[])))
		AND NOT EXISTS (SELECT FROM {s}.queues q WHERE q.name = $1::text AND q.paused_at IS NOT NULL)
		AND current_setting('coppice.careful', true) IS DISTINCT FROM 't'
		AND EXISTS (SELECT FROM {s}.workers w WHERE w.id = $8::bigint AND w.expires_at > now())
	ORDER BY j.priority, j.run_at, j.id
	LIMIT $7::integer
	FOR UPDATE OF j SKIP LOCKED
)
UPDATE {s}.jobs j
SET state = 'running', worker_id = $8::bigint, claim_seq = j.claim_seq + 1, attempt = j.attempt + 1,
	started_at = now()
FROM picked
WHERE j.id = picked.id
RETURNING ` + claimedColumns

// claimedColumns is what a claim answers of the rows j that it has taken.
const claimedColumns = `j.id, j.claim_seq, j.root_id, coalesce(j.parent_id, 0), j.kind, j.args, j.tags, j.meta, j.attempt, j.max_attempts,
	j.round, j.timeout_ms,
	(extract(epoch FROM coalesce(j.age_from, j.created_at) - now()) * 1000)::bigint + j.max_age_ms,
	j.backoff_base_ms, j.backoff_cap_ms, j.backoff_factor, j.backoff_jitter, j.keep_ms,
	j.completed, j.dead, j.cancelled, j.removed, j.created_at, j.priority, j.run_at, j.checkpoint`

// promoteSQL makes due jobs ready, by jobs_scheduled, skipping what others have locked.
const promoteSQL = `
UPDATE {s}.jobs j SET state = 'ready'
FROM (
	SELECT d.id
	FROM {s}.jobs d
	WHERE d.queue = $1::text AND d.state = 'scheduled' AND NOT d.held AND d.run_at <= now()
	ORDER BY d.run_at, d.id
	LIMIT $2::integer
	FOR UPDATE OF d SKIP LOCKED
) due
WHERE j.id = due.id`

// nextDueSQL reads the first entry of jobs_scheduled that is not due yet, and whether the worker has its lease
// (workers_pkey).
const nextDueSQL = `
SELECT coalesce((
	SELECT ceil(extract(epoch FROM j.run_at - now()) * 1000)::bigint
	FROM {s}.jobs j
	WHERE j.queue = $1::text AND j.state = 'scheduled' AND NOT j.held AND j.run_at > now()
	ORDER BY j.run_at LIMIT 1), -1),
	coalesce((
	SELECT ceil(extract(epoch FROM l.retry_at - now()) * 1000)::bigint
	FROM {s}.limits l WHERE l.retry_queue = $1::text AND l.retry_at IS NOT NULL ORDER BY l.retry_at LIMIT 1), -1),
	EXISTS (SELECT FROM {s}.workers w WHERE w.id = $2::bigint AND w.expires_at > now())`

// Claim takes ready jobs of one queue for a worker (docs/internals.md, Claim). The claim is committed and
// read to the end when it returns, so a job may be run and settled at once. Its commit does not wait for
// the disk: a crash of the server that forgets a claim leaves the job ready, and the fence, which is worker
// and number together, keeps the forgotten claim's outcome apart from another worker's.
func (s *Store) Claim(ctx context.Context, r ClaimRequest) (*Claimed, error) {
	after := Position{Priority: tree.MinPriority, ID: -1}
	runAt := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	if r.After != nil {
		after = *r.After
		runAt = pgtype.Timestamptz{Time: after.RunAt, Valid: true}
	}
	got := &Claimed{NextDue: -1, Asked: r.Limit}
	steps := make([]step, 0, 6)
	steps = append(steps, step{sql: fixedPlan}, step{sql: notDurable})
	if r.Promote {
		steps = append(steps, step{
			sql: s.promoteSQL, args: []any{r.Queue, int32(max(r.Limit, promoteFloor))},
			rows: func(rows pgx.Rows) error {
				rows.Close()
				got.Due = int(rows.CommandTag().RowsAffected())
				return rows.Err()
			},
		})
	}
	careful := false
	steps = append(steps, step{sql: s.carefulSQL, args: []any{r.Queue, r.WorkKinds, r.FinalizeKinds}, rows: func(rows pgx.Rows) error {
		var is string
		_, err := pgx.ForEachRow(rows, []any{&is}, func() error { return nil })
		careful = is == "t"
		return err
	}})
	steps = append(steps, step{
		sql: s.claimSQL,
		args: []any{
			r.Queue, after.Priority, runAt, int64(after.ID), r.WorkKinds, r.FinalizeKinds, int32(r.Limit),
			int64(r.WorkerID),
		},
		rows: func(rows pgx.Rows) error {
			got.Jobs = got.Jobs[:0]
			return scanClaims(rows, r.Queue, false, &got.Jobs)
		},
	})
	if r.Promote {
		steps = append(steps, step{sql: s.nextDueSQL, args: []any{r.Queue, int64(r.WorkerID)}, rows: func(rows pgx.Rows) error {
			var ms, token int64
			var leased bool
			_, err := pgx.ForEachRow(rows, []any{&ms, &token, &leased}, func() error { return nil })
			got.NextDue, got.NoLease = time.Duration(ms)*time.Millisecond, !leased
			got.nextToken(token)
			return err
		}})
	}
	err := s.pipe(ctx, steps...)
	if err == nil && careful {
		err = s.claimCarefully(ctx, r, got)
	}
	if err != nil {
		return nil, fmt.Errorf("claim from queue %q: %w", r.Queue, err)
	}
	// RETURNING has the order of the update's join, whatever that was.
	slices.SortFunc(got.Jobs, func(a, b Claim) int { return a.Position.compare(b.Position) })
	return got, nil
}

// scanClaims reads what a claim answers; that of a careful one has the jobs' keys besides.
func scanClaims(rows pgx.Rows, queue string, keyed bool, into *[]Claim) error {
	for rows.Next() {
		var (
			c                                           Claim
			timeout, age, backoffBase, backoffCap, keep *int64
			factor, jitter                              *float32
		)
		fields := [...]any{
			&c.ID, &c.Seq, &c.RootID, &c.ParentID, &c.Kind, &c.Args, &c.Tags, &c.Meta, &c.Attempt,
			&c.MaxAttempts, &c.Round, &timeout, &age, &backoffBase, &backoffCap, &factor, &jitter, &keep,
			&c.Completed, &c.Dead, &c.Cancelled, &c.Removed, &c.CreatedAt, &c.Position.Priority, &c.Position.RunAt, &c.Checkpoint,
			&c.Keys.Group, &c.Keys.Limit,
		}
		columns := len(fields)
		if !keyed {
			columns -= 2
		}
		err := rows.Scan(fields[:columns]...)
		if err != nil {
			return err
		}
		c.Queue = queue
		c.Position.ID = c.ID
		if timeout != nil {
			c.Timeout = time.Duration(*timeout) * time.Millisecond
		}
		if age != nil {
			c.HasAge, c.AgeLeft = true, time.Duration(*age)*time.Millisecond
		}
		if backoffBase != nil && backoffCap != nil && factor != nil && jitter != nil {
			c.Backoff = &tree.Backoff{
				Base: time.Duration(*backoffBase) * time.Millisecond, Cap: time.Duration(*backoffCap) * time.Millisecond,
				Factor: float64(*factor), Jitter: float64(*jitter),
			}
		}
		if keep != nil {
			d := time.Duration(*keep) * time.Millisecond
			c.KeepFor = &d
		}
		*into = append(*into, c)
	}
	return rows.Err()
}
