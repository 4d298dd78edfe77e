package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// The careful claim (docs/internals.md, Groups and limits) takes jobs that may not all run at once: those with a group, whose
// turn must have come; those with a limit, which must have room; and all jobs of a queue that is limited itself.

// Keys are what a job shares with others that may not run beside it; "": nothing.
type Keys struct {
	Group string
	Limit string
}

func (k Keys) any() bool { return k.Group != "" || k.Limit != "" }

const (
	// unparkMost bounds the marks that one careful claim consumes.
	unparkMost = 1_000
	// lookLeast and lookMost bound the jobs with keys that a careful claim looks at: twice as many as it may take, and more when
	// those have no room. They are parked, so that the next one looks at others.
	lookLeast, lookMost = 50, 1_000
)

// keyedReady says of a row j of jobs that it is of the queue $1, has a group or a limit, and may have room; $2 and $3 are the kinds
// that the worker works on and finalizes. As jobs_keyed has it.
const keyedReady = `j.queue = $1::text AND j.state = 'ready' AND NOT j.held AND NOT j.parked
		AND (j.group_key IS NOT NULL OR j.limit_key IS NOT NULL)
		AND ((j.round = 0 AND j.kind = ANY ($2::text[])) OR (j.round > 0 AND j.kind = ANY ($3::text[])))`

// carefulSQL says, to the statements that follow it in the transaction too, whether the queue needs a careful claim: it is
// limited (queues_pkey), jobs with keys may have room (jobs_keyed), somebody made room (marks_pkey), or a token has
// come (limits_retry).
const carefulSQL = `SELECT set_config('coppice.careful', CASE WHEN
		EXISTS (SELECT FROM {s}.queues q WHERE q.name = $1::text AND q.max_running IS NOT NULL)
		OR EXISTS (SELECT FROM {s}.jobs j WHERE ` + keyedReady + `)
		OR EXISTS (SELECT FROM {s}.marks m WHERE m.queue = $1::text)
		OR EXISTS (SELECT FROM {s}.limits l WHERE l.retry_queue = $1::text AND l.retry_at <= now())
	THEN 't' ELSE 'f' END, true)`

// soleSQL lets one careful claim of the schema work at a time. It is a statement of its own, so that those behind it see what
// the one before has committed: no two give the same room away, and no mark that comes after a job was parked is
// consumed before it.
const soleSQL = `SELECT pg_advisory_xact_lock(hashtextextended($1::text, 7305))`

// bucketNow is what the bucket of a limit l holds now.
const bucketNow = `least(l.burst, l.tokens + l.rate * extract(epoch FROM clock_timestamp() - l.refilled_at))`

// roomOf is how many more jobs of a key may be started, by the row l of limits; jobs_limit_running counts those that run.
const roomOf = `greatest(0, least(
		CASE WHEN l.max_running IS NULL THEN 2147483647
			ELSE l.max_running - (SELECT count(*) FROM {s}.jobs r WHERE r.limit_key = l.key AND r.state = 'running') END,
		CASE WHEN l.rate IS NULL THEN 2147483647 ELSE floor(` + bucketNow + ` + 1e-9) END))::bigint`

// itsTurn says of a row j of jobs that its group, if it has one, lets it start: it is the first in the line (jobs_group), and
// nobody of the group runs (jobs_group_running). Written without EXISTS, which the planner may answer from a hash of the whole index.
const itsTurn = `(j.group_key IS NULL OR j.id = (
			SELECT f.id FROM {s}.jobs f WHERE f.group_key = j.group_key AND f.state <> 'waiting' ORDER BY f.id LIMIT 1)
		AND (SELECT f.id FROM {s}.jobs f WHERE f.group_key = j.group_key AND f.state = 'running' LIMIT 1) IS NULL)`

// unparkSQL consumes marks of the queue, and tokens that have come, and lets those look for room again who are next: the
// first in the line of each group (jobs_group), and of each limit, in every queue, as many as there is room for and whose
// turn it is in their group, at least one (jobs_limit_parked, skipping from queue to queue). Rows are locked by
// ascending id. It answers their queues.
const unparkSQL = `WITH taken AS MATERIALIZED (
	DELETE FROM {s}.marks m WHERE m.queue = $1::text AND m.id = ANY (array(
		SELECT id FROM {s}.marks WHERE queue = $1::text ORDER BY id LIMIT $2::integer))
	RETURNING m.group_key, m.limit_key
), come AS MATERIALIZED (
	UPDATE {s}.limits l SET retry_at = NULL, retry_queue = NULL
	WHERE l.retry_queue = $1::text AND l.retry_at <= clock_timestamp()
	RETURNING l.key
), next AS MATERIALIZED (
	SELECT h.id
	FROM (SELECT DISTINCT group_key FROM taken WHERE group_key IS NOT NULL) g
	CROSS JOIN LATERAL (
		SELECT j.id, j.parked FROM {s}.jobs j WHERE j.group_key = g.group_key AND j.state <> 'waiting' ORDER BY j.id LIMIT 1) h
	WHERE h.parked
	UNION
	SELECT p.id
	FROM (SELECT limit_key FROM taken WHERE limit_key IS NOT NULL UNION SELECT key FROM come) k
	LEFT JOIN LATERAL (SELECT ` + roomOf + ` AS room FROM {s}.limits l WHERE l.key = k.limit_key) l ON true
	CROSS JOIN LATERAL (
		WITH RECURSIVE queues AS (
			(SELECT j.queue FROM {s}.jobs j WHERE j.limit_key = k.limit_key AND j.parked AND NOT j.held ORDER BY j.queue LIMIT 1)
			UNION ALL
			SELECT (SELECT j.queue FROM {s}.jobs j WHERE j.limit_key = k.limit_key AND j.parked AND NOT j.held AND j.queue > q.queue
				ORDER BY j.queue LIMIT 1)
			FROM queues q WHERE q.queue IS NOT NULL
		) SELECT queue FROM queues WHERE queue IS NOT NULL) q
	CROSS JOIN LATERAL (
		SELECT j.id FROM {s}.jobs j WHERE j.limit_key = k.limit_key AND j.queue = q.queue AND j.parked AND NOT j.held AND ` + itsTurn + `
		ORDER BY j.priority, j.run_at, j.id LIMIT least(greatest(coalesce(l.room, 1000), 1), 1000)) p
), freed AS (
	UPDATE {s}.jobs j SET parked = false
	FROM (SELECT id FROM next ORDER BY id) n
	WHERE j.id = n.id AND j.parked
	RETURNING j.queue
)
SELECT DISTINCT queue FROM freed`

// admitSQL picks, in the queue's order, from its plain jobs (jobs_ready) and those with keys (jobs_keyed), locking only what
// nobody else has locked. A job with a group is admitted if it is the first in the line (jobs_group) and nobody of the
// group runs (jobs_group_running); one with a limit, while its key has room. Those with keys that are not admitted are parked.
// Of the queue's own limit, max_running, what runs is counted by worker (jobs_running). Started jobs take a token each,
// and where there was none for a parked one, the limit's row says when it comes. Where the group kept a job from using its limit's
// room, a mark lets others of the limit look.
const admitSQL = `WITH room AS MATERIALIZED (
	SELECT least($5::bigint, CASE WHEN q.max_running IS NULL THEN $5::bigint ELSE q.max_running - (
		SELECT coalesce(sum((SELECT count(*) FROM {s}.jobs r WHERE r.state = 'running' AND r.worker_id = w.id AND r.queue = $1::text)), 0)
		FROM {s}.workers w)::bigint END) AS room
	FROM (SELECT 1) one LEFT JOIN {s}.queues q ON q.name = $1::text
	WHERE q.paused_at IS NULL AND EXISTS (SELECT FROM {s}.workers w WHERE w.id = $4::bigint AND w.expires_at > now())
), plain AS MATERIALIZED (
	SELECT j.id, j.priority, j.run_at
	FROM {s}.jobs j
	WHERE j.queue = $1::text AND j.state = 'ready' AND NOT j.held AND j.group_key IS NULL AND j.limit_key IS NULL
		AND ((j.round = 0 AND j.kind = ANY ($2::text[])) OR (j.round > 0 AND j.kind = ANY ($3::text[])))
	ORDER BY j.priority, j.run_at, j.id
	LIMIT coalesce((SELECT greatest(room, 0) FROM room), 0)
	FOR UPDATE OF j SKIP LOCKED
), keyed AS MATERIALIZED (
	SELECT j.id, j.priority, j.run_at, j.group_key, j.limit_key
	FROM {s}.jobs j
	WHERE ` + keyedReady + `
	ORDER BY j.priority, j.run_at, j.id
	LIMIT coalesce((SELECT CASE WHEN room > 0 THEN $6::integer END FROM room), 0)
	FOR UPDATE OF j SKIP LOCKED
), turn AS MATERIALIZED (
	SELECT j.*, ` + itsTurn + ` AS its FROM keyed j
), limited AS MATERIALIZED (
	SELECT k.limit_key, ` + roomOf + ` AS room
	FROM (SELECT DISTINCT limit_key FROM turn WHERE limit_key IS NOT NULL) k
	CROSS JOIN LATERAL (SELECT * FROM {s}.limits l WHERE l.key = k.limit_key) l
), ranked AS MATERIALIZED (
	SELECT t.*, row_number() OVER (PARTITION BY t.limit_key, t.its ORDER BY t.priority, t.run_at, t.id) AS n
	FROM turn t
), admitted AS MATERIALIZED (
	SELECT r.*, r.its AND (r.limit_key IS NULL OR r.n <= coalesce(l.room, 2147483647)) AS yes
	FROM ranked r LEFT JOIN limited l ON l.limit_key = r.limit_key
), picked AS MATERIALIZED (
	SELECT id FROM (
		SELECT id, priority, run_at FROM plain UNION ALL SELECT id, priority, run_at FROM admitted WHERE yes
	) AS both_kinds ORDER BY priority, run_at, id LIMIT coalesce((SELECT greatest(room, 0) FROM room), 0)
), parked AS (
	UPDATE {s}.jobs j SET parked = true FROM admitted a WHERE j.id = a.id AND NOT a.yes
), spent AS (
	UPDATE {s}.limits l SET tokens = ` + bucketNow + ` - k.started, refilled_at = clock_timestamp(),
		retry_at = CASE WHEN k.waiting = 0 OR ` + bucketNow + ` - k.started >= 1 THEN l.retry_at
			ELSE clock_timestamp() + greatest(0, 1 - (` + bucketNow + ` - k.started)) / l.rate * interval '1 second' END,
		retry_queue = CASE WHEN k.waiting = 0 OR ` + bucketNow + ` - k.started >= 1 THEN l.retry_queue ELSE $1::text END
	FROM (
		SELECT a.limit_key, count(p.id) AS started, count(*) FILTER (WHERE a.its AND NOT a.yes)
			+ (SELECT count(*) FROM (SELECT FROM {s}.jobs j WHERE j.limit_key = a.limit_key AND j.parked AND NOT j.held LIMIT 1) one) AS waiting
		FROM admitted a LEFT JOIN picked p ON p.id = a.id
		WHERE a.limit_key IS NOT NULL GROUP BY a.limit_key
	) k
	WHERE l.key = k.limit_key AND l.rate IS NOT NULL
), passed AS (
	INSERT INTO {s}.marks (queue, limit_key)
	SELECT DISTINCT $1::text, a.limit_key FROM admitted a WHERE a.limit_key IS NOT NULL AND NOT a.its
)
UPDATE {s}.jobs j
SET state = 'running', worker_id = $4::bigint, claim_seq = j.claim_seq + 1, attempt = j.attempt + 1, started_at = now()
FROM picked
WHERE j.id = picked.id
RETURNING ` + claimedColumns + `, coalesce(j.group_key, ''), coalesce(j.limit_key, '')`

// leftSQL is when the next token comes for a job of the queue that was parked for want of one (limits_retry), the first of the
// jobs with keys that are left to look at (jobs_keyed), and whether there are marks (marks_pkey).
const leftSQL = `
SELECT coalesce((SELECT ceil(extract(epoch FROM l.retry_at - clock_timestamp()) * 1000)::bigint
	FROM {s}.limits l WHERE l.retry_queue = $1::text AND l.retry_at IS NOT NULL ORDER BY l.retry_at LIMIT 1), -1),
	coalesce((SELECT j.id FROM {s}.jobs j WHERE ` + keyedReady + ` ORDER BY j.priority, j.run_at, j.id LIMIT 1), 0),
	EXISTS (SELECT FROM {s}.marks m WHERE m.queue = $1::text)`

// nextToken notes that a token comes after so many milliseconds; negative: none is waited for.
func (c *Claimed) nextToken(ms int64) {
	d := max(time.Duration(ms)*time.Millisecond, 0)
	if ms >= 0 && (c.NextDue < 0 || d < c.NextDue) {
		c.NextDue = d
	}
}

// carefulRounds bounds how often one claim looks again when what it looked at had no room.
const carefulRounds = 5

// claimCarefully takes what may be started now. Its commits need not wait for the disk either: what they consumed, parked and
// spent is forgotten with what they claimed.
func (s *Store) claimCarefully(ctx context.Context, r ClaimRequest, got *Claimed) error {
	got.Careful = true
	if r.Free != 0 {
		got.Asked = min(r.Limit, max(r.Free, 0))
	}
	woken := map[string]struct{}{}
	look := min(max(2*got.Asked, lookLeast), lookMost)
	got.More = true
	for round, front := 0, int64(-1); got.More && round < carefulRounds && len(got.Jobs) < got.Asked; round++ {
		jobs, left, err := s.admit(ctx, r, got.Asked-len(got.Jobs), look, got, woken)
		look = min(4*look, lookMost)
		if err != nil {
			if len(got.Jobs) > 0 {
				break // what was taken before is the worker's
			}
			return err
		}
		got.Jobs = append(got.Jobs, jobs...)
		// The same job in front as before: others have locked it, and say when it is free.
		got.More = left.marks || left.front != 0 && (len(jobs) > 0 || left.front != front)
		front = left.front
	}
	delete(woken, r.Queue)
	got.Woken = slices.Sorted(maps.Keys(woken))
	return nil
}

// left is what a careful claim left to look at.
type left struct {
	front int64 // the first job with keys; 0: none
	marks bool
}

// admit is one transaction of a careful claim: it takes at most limit jobs, and looks at at most look with keys.
func (s *Store) admit(ctx context.Context, r ClaimRequest, limit, look int, got *Claimed, woken map[string]struct{}) (jobs []Claim, rest left, err error) {
	var token int64
	err = s.pipe(ctx,
		step{sql: fixedPlan}, step{sql: notDurable},
		step{sql: soleSQL, args: []any{"coppice claim " + s.schema}},
		step{sql: s.unparkSQL, args: []any{r.Queue, int32(unparkMost)}, rows: func(rows pgx.Rows) error {
			var queue string
			_, err := pgx.ForEachRow(rows, []any{&queue}, func() error {
				woken[queue] = struct{}{}
				return nil
			})
			return err
		}},
		step{
			sql:  s.admitSQL,
			args: []any{r.Queue, r.WorkKinds, r.FinalizeKinds, int64(r.WorkerID), int64(limit), int32(look)},
			rows: func(rows pgx.Rows) error {
				jobs = nil
				return scanClaims(rows, r.Queue, true, &jobs)
			},
		},
		step{sql: s.leftSQL, args: []any{r.Queue, r.WorkKinds, r.FinalizeKinds}, rows: func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&token, &rest.front, &rest.marks}, func() error { return nil })
			return err
		}})
	if err == nil {
		got.nextToken(token)
	}
	return jobs, rest, err
}

// marksSQL notes that somebody of groups and limits has left, or changed.
const marksSQL = `
INSERT INTO {s}.marks (queue, group_key, limit_key)
SELECT DISTINCT * FROM unnest($1::text[], $2::text[], $3::text[])`

// markStep is the step of a settle that marks the keys of what has ended, or gone back; false if there are none.
func (s *Store) markStep(endings []Ending) (step, bool) {
	var queues []string
	var groups, limits []*string
	for i := range endings {
		if e := &endings[i]; e.Keys.any() {
			queues, groups, limits = append(queues, e.Queue), append(groups, orNull(e.Keys.Group)), append(limits, orNull(e.Keys.Limit))
		}
	}
	return step{sql: s.marksSQL, args: []any{queues, groups, limits}}, len(queues) > 0
}

// markedQueues are the queues whose lanes are to look at the marks of a settle.
func markedQueues(endings []Ending) []string {
	var queues []string
	for i := range endings {
		if endings[i].Keys.any() {
			queues = append(queues, endings[i].Queue)
		}
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}

// Unpark lets parked jobs look for room again, at most limit of them, whose group and limit have room. A mark does that, unless
// nobody serves the queue that it is for; or there was damage. A reaper looks for them. It answers their queues.
// Locks: the jobs, skipping what is locked.
func (s *Store) Unpark(ctx context.Context, limit int) (woken []string, err error) {
	err = s.pipe(ctx, step{sql: soleSQL, args: []any{"coppice claim " + s.schema}}, step{
		sql: s.sql(`WITH stuck AS MATERIALIZED (
				SELECT j.id FROM {s}.jobs j WHERE ` + roomForParked + ` ORDER BY j.id LIMIT $1::integer FOR UPDATE OF j SKIP LOCKED
			), freed AS (
				UPDATE {s}.jobs j SET parked = false FROM stuck WHERE j.id = stuck.id RETURNING j.queue
			)
			SELECT DISTINCT queue FROM freed ORDER BY queue`),
		args: []any{int32(limit)},
		rows: func(rows pgx.Rows) (err error) {
			woken, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		},
	})
	return woken, err
}

const (
	// roomForParked says of a row j of jobs that it is parked although it would find room, and that nobody of its limit who looks
	// for room in its queue will let it have it in the end.
	roomForParked = `j.parked AND NOT j.held AND ` + itsTurn + `
		AND NOT EXISTS (SELECT FROM {s}.limits l WHERE l.key = j.limit_key AND (l.retry_at > now() - interval '10 seconds'
			OR l.max_running <= (SELECT count(*) FROM {s}.jobs r WHERE r.limit_key = l.key AND r.state = 'running')))
		AND NOT EXISTS (SELECT FROM {s}.jobs r WHERE r.queue = j.queue AND r.limit_key = j.limit_key AND r.state = 'ready'
			AND NOT r.held AND NOT r.parked)`
	// strandedJob says so of a row that no mark is for either.
	strandedJob = roomForParked + ` AND NOT EXISTS (SELECT FROM {s}.marks m WHERE m.group_key = j.group_key OR m.limit_key = j.limit_key)
		AND NOT EXISTS (SELECT FROM {s}.limits l WHERE l.key = j.limit_key AND l.retry_at IS NOT NULL)`
)
