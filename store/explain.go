package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// Because names a reason why a job does not run. The catalogue is stable: a value keeps its meaning.
type Because string

// The reasons why a job does not run. One that runs, has ended or is dead has one of the last four.
const (
	BecauseClosing   Because = "closing"    // it is being cancelled or stopped, by Actor, for Why, and waits for Count live children to end
	BecauseHeld      Because = "held"       // by Actor, Since, for Why
	BecausePaused    Because = "paused"     // its queue is, by Actor, Since
	BecauseDue       Because = "due"        // it is due later, In so long; after a failed attempt Why has its error
	BecauseComeDue   Because = "come_due"   // its time has come; the next claim of its queue makes it ready
	BecauseChildren  Because = "children"   // it waits for Count children, of whom Jobs has some
	BecauseStalled   Because = "stalled"    // Count dead children hold it up, Since; Jobs has some
	BecauseUnsealed  Because = "unsealed"   // more children may come; it is given up in In
	BecauseGroup     Because = "group"      // Jobs[0] of its group, Key, comes first
	BecauseLimit     Because = "limit"      // Count jobs of its limit, Key, run, and Most may; or there is no token, until In
	BecauseQueueFull Because = "queue_full" // Count jobs of its queue run, and Most may
	BecauseNoWorker  Because = "no_worker"  // no live worker serves its queue, Key
	BecauseNoHandler Because = "no_handler" // no live worker of its queue has a handler for its kind, Key
	BecauseTurn      Because = "turn"       // nothing keeps it from running: Count jobs of its queue come before it, counted up to 1,000

	BecauseRunning Because = "running" // it runs, Since; on worker Worker
	BecauseEnded   Because = "ended"   // it has ended: Why
	BecauseDead    Because = "dead"    // it is in the dead-letter queue: Why
	BecauseLost    Because = "lost"    // it runs on a worker whose lease is over: a reaper takes it back
)

// Explanation says why a job does not run, or what it does instead.
type Explanation struct {
	ID     tree.ID
	RootID tree.ID
	Kind   string
	Queue  string
	State  tree.State
	// Reasons are never empty; the one that decides comes first.
	Reasons []Obstacle
}

// Obstacle is one reason, with the data that goes with it.
type Obstacle struct {
	Because Because
	Since   *time.Time
	In      time.Duration
	Count   int
	Most    int
	Key     string
	Actor   string
	Why     string
	Worker  tree.WorkerID
	Jobs    []ObstacleJob // at most explainJobs
}

// ObstacleJob is a job that another waits for.
type ObstacleJob struct {
	ID    tree.ID
	Kind  string
	State tree.State
}

const (
	explainJobs = 10
	explainTurn = 1_000
)

// Explain says why a job does not run, in data. Every query goes by an index and reads a bounded number of rows, however
// large the tree or the queue is. No locks. The error has [ErrNotFound] in its chain when the job is nowhere.
func (s *Store) Explain(ctx context.Context, id tree.ID) (*Explanation, error) {
	job, err := s.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	e := &Explanation{ID: job.ID, RootID: job.RootID, Kind: job.Kind, Queue: job.Queue, State: job.State}
	x := explainer{s: s, ctx: ctx, job: job, e: e}
	switch {
	case job.Place == PlaceDead:
		x.add(Obstacle{Because: BecauseDead, Since: job.FailedAt, Why: string(job.Reason) + ": " + job.Error})
	case job.Place == PlaceHistory:
		why := string(job.State)
		if job.Error != "" {
			why += ": " + job.Error
		}
		x.add(Obstacle{Because: BecauseEnded, Since: job.FinishedAt, Actor: job.Actor, Why: why})
	case job.State == tree.Running:
		x.running()
	default:
		x.live()
	}
	if x.err != nil {
		return nil, fmt.Errorf("explain job %d: %w", id, x.err)
	}
	return e, nil
}

// explainer gathers reasons; after its first error it does nothing more.
type explainer struct {
	s   *Store
	ctx context.Context //nolint:containedctx // of the one call that it lives for
	job *JobRow
	e   *Explanation
	err error
}

func (x *explainer) add(o Obstacle) { x.e.Reasons = append(x.e.Reasons, o) }

// read runs one query under fixedPlan: whatever the statistics say, it goes by the index that its comment names.
func (x *explainer) read(sql string, args []any, rows func(pgx.Rows) error) {
	if x.err == nil {
		x.err = x.s.pipe(x.ctx, step{sql: fixedPlan}, step{sql: x.s.sql(sql), args: args, rows: rows})
	}
}

// one reads one row, and answers whether there is one.
func (x *explainer) one(into []any, sql string, args ...any) (found bool) {
	x.read(sql, args, func(rows pgx.Rows) error {
		found = false
		_, err := pgx.ForEachRow(rows, into, func() error {
			found = true
			return nil
		})
		return err
	})
	return found && x.err == nil
}

// jobs reads jobs, each as (id, kind, state).
func (x *explainer) jobs(sql string, args ...any) (jobs []ObstacleJob) {
	x.read(sql, args, func(rows pgx.Rows) (err error) {
		jobs, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ObstacleJob])
		return err
	})
	return jobs
}

func (x *explainer) running() {
	j := x.job
	x.closing()
	o := Obstacle{Because: BecauseRunning, Since: j.StartedAt, Worker: j.WorkerID}
	var over bool
	// By workers_pkey.
	if !x.one([]any{&over}, `SELECT expires_at < now() FROM {s}.workers WHERE id = $1::bigint`, int64(j.WorkerID)) || over {
		o.Because = BecauseLost
	}
	x.add(o)
}

// live explains a job that is scheduled, ready or waiting. What keeps it for certain comes before what may pass.
func (x *explainer) live() {
	j := x.job
	x.closing()
	x.held()
	if j.State == tree.Waiting {
		x.waiting()
	}
	if j.State == tree.Scheduled {
		x.scheduled()
	}
	x.queue()
	if j.State == tree.Ready {
		x.group()
		x.limit()
	}
	if len(x.e.Reasons) == 0 {
		x.turn()
	}
}

func (x *explainer) closing() {
	if j := x.job; j.Closing != "" {
		x.add(Obstacle{Because: BecauseClosing, Actor: j.ClosingBy, Why: closingWords(j.Closing, j.ClosingWhy), Count: j.Pending})
	}
}

func closingWords(as, why string) string {
	if why == "" {
		return "it ends as " + as
	}
	return "it ends as " + as + ": " + why
}

// held finds who holds the job: the newest hold of the job itself, or of a tree or branch above it, among the newest 10,000
// acts on its tree (audit_tree).
func (x *explainer) held() {
	if !x.job.Held {
		return
	}
	o := Obstacle{Because: BecauseHeld}
	x.one([]any{&o.Actor, &o.Why, &o.Since}, `
		WITH RECURSIVE above AS (
			SELECT id, parent_id FROM {s}.jobs WHERE id = $2::bigint
			UNION ALL
			SELECT p.id, p.parent_id FROM above a JOIN {s}.jobs p ON p.id = a.parent_id
		)
		SELECT h.actor, coalesce(h.reason, ''), h.at
		FROM (SELECT * FROM {s}.audit WHERE root_id = $1::bigint ORDER BY id DESC LIMIT 10000) h
		WHERE h.action = 'hold' AND (h.job_id = $2::bigint
			OR h.detail->>'scope' = 'tree' OR h.detail->>'scope' = 'branch' AND h.job_id IN (SELECT id FROM above))
		ORDER BY h.id DESC LIMIT 1`, int64(x.job.RootID), int64(x.job.ID))
	x.add(o)
}

// waiting explains a finalizer that waits.
func (x *explainer) waiting() {
	j := x.job
	if j.Dead > 0 && (j.StalledAt != nil || j.Pending == 0 && j.Sealed) {
		// By dead_jobs_tree.
		x.add(Obstacle{Because: BecauseStalled, Since: j.StalledAt, Count: j.Dead, Jobs: x.jobs(`
			SELECT id, kind, state FROM {s}.dead_jobs WHERE root_id = $1::bigint AND parent_id = $2::bigint ORDER BY id LIMIT $3::integer`,
			int64(j.RootID), int64(j.ID), int32(explainJobs))})
	}
	if j.Pending > 0 {
		// By jobs_tree.
		x.add(Obstacle{Because: BecauseChildren, Count: j.Pending, Jobs: x.jobs(`
			SELECT id, kind, state FROM {s}.jobs WHERE root_id = $1::bigint AND parent_id = $2::bigint ORDER BY id LIMIT $3::integer`,
			int64(j.RootID), int64(j.ID), int32(explainJobs))})
	}
	if !j.Sealed {
		o := Obstacle{Because: BecauseUnsealed, Since: &j.CreatedAt}
		x.one([]any{&o.In}, `SELECT coalesce(`+nanos("seal_by - now()")+`, 0) FROM {s}.jobs WHERE id = $1::bigint`, int64(j.ID))
		x.add(o)
	}
}

func (x *explainer) scheduled() {
	j := x.job
	if j.Due {
		x.add(Obstacle{Because: BecauseComeDue})
		return
	}
	o := Obstacle{Because: BecauseDue, In: j.DueIn, Count: j.Attempt}
	// By job_errors_job. An error from before the newest claim is not why it is put off: it snoozed since, or was restored.
	if j.StartedAt != nil && j.Attempt+j.Lost > 0 {
		x.one([]any{&o.Why}, `SELECT error FROM {s}.job_errors WHERE job_id = $1::bigint AND at >= $2::timestamptz ORDER BY at DESC LIMIT 1`,
			int64(j.ID), *j.StartedAt)
	}
	x.add(o)
}

// queue explains what the job's queue keeps it from: a pause, its limit, that nobody serves it.
func (x *explainer) queue() {
	j := x.job
	var pausedAt *time.Time
	var by string
	var most, running int
	// By queues_pkey; what runs is counted by worker (jobs_running), and only if there is a limit.
	x.one([]any{&pausedAt, &by, &most, &running}, `
		SELECT q.paused_at, coalesce(q.paused_by, ''), coalesce(q.max_running, 0), CASE WHEN q.max_running IS NULL THEN 0 ELSE (
			SELECT coalesce(sum((SELECT count(*) FROM {s}.jobs r WHERE r.state = 'running' AND r.worker_id = w.id AND r.queue = q.name)), 0)
			FROM {s}.workers w)::integer END
		FROM {s}.queues q WHERE q.name = $1::text`, j.Queue)
	if pausedAt != nil {
		o := Obstacle{Because: BecausePaused, Since: pausedAt, Actor: by, Key: j.Queue}
		x.one([]any{&o.Why}, `
			SELECT coalesce(reason, '') FROM (SELECT * FROM {s}.audit ORDER BY id DESC LIMIT 10000) a
			WHERE action = 'queue_pause' AND queue = $1::text ORDER BY id DESC LIMIT 1`, j.Queue)
		x.add(o)
	}
	if j.State == tree.Ready && most > 0 && running >= most {
		x.add(Obstacle{Because: BecauseQueueFull, Count: running, Most: most, Key: j.Queue})
	}
	if j.State == tree.Waiting {
		return // whether anybody serves it does not matter yet
	}
	var serve, handle int
	x.one([]any{&serve, &handle}, `
		SELECT count(*), count(*) FILTER (WHERE $2::text = ANY (kinds)) FROM {s}.workers
		WHERE expires_at > now() AND NOT stopping AND $1::text = ANY (queues)`, j.Queue, j.Kind)
	switch {
	case x.err != nil:
	case serve == 0:
		x.add(Obstacle{Because: BecauseNoWorker, Key: j.Queue})
	case handle == 0:
		x.add(Obstacle{Because: BecauseNoHandler, Key: j.Kind})
	}
}

// group names the job of the group that comes first (jobs_group_running, jobs_group).
func (x *explainer) group() {
	j := x.job
	if j.GroupKey == "" {
		return
	}
	first := x.jobs(`
		(SELECT id, kind, state FROM {s}.jobs WHERE group_key = $1::text AND state = 'running' LIMIT 1)
		UNION ALL
		(SELECT id, kind, state FROM {s}.jobs WHERE group_key = $1::text AND state <> 'waiting' ORDER BY id LIMIT 1)
		LIMIT 1`, j.GroupKey)
	if len(first) > 0 && first[0].ID != j.ID {
		x.add(Obstacle{Because: BecauseGroup, Key: j.GroupKey, Jobs: first})
	}
}

// limit says what the job's limit has no room for (limits_pkey, jobs_limit_running).
func (x *explainer) limit() {
	j := x.job
	if j.LimitKey == "" {
		return
	}
	o := Obstacle{Because: BecauseLimit, Key: j.LimitKey}
	var tokens, rate float64
	found := x.one([]any{&o.Most, &o.Count, &tokens, &rate}, `
		SELECT coalesce(l.max_running, 0), (SELECT count(*) FROM {s}.jobs r WHERE r.limit_key = l.key AND r.state = 'running'),
			CASE WHEN l.rate IS NULL THEN 1 ELSE `+bucketNow+` END, coalesce(l.rate, 0)
		FROM {s}.limits l WHERE l.key = $1::text`, j.LimitKey)
	if !found {
		return
	}
	if tokens < 1 && rate > 0 {
		o.In = time.Duration((1 - tokens) / rate * float64(time.Second))
	}
	if o.Most > 0 && o.Count >= o.Most || o.In > 0 {
		x.add(o)
	}
}

// turn counts what comes before a job that nothing keeps from running (jobs_ready, jobs_keyed).
func (x *explainer) turn() {
	j := x.job
	o := Obstacle{Because: BecauseTurn}
	x.one([]any{&o.Count}, `
		SELECT count(*) FROM (
			(SELECT FROM {s}.jobs b WHERE b.queue = $1::text AND b.state = 'ready' AND NOT b.held AND b.group_key IS NULL AND b.limit_key IS NULL
				AND (b.priority, b.run_at, b.id) < ($2::smallint, $3::timestamptz, $4::bigint) LIMIT $5::integer)
			UNION ALL
			(SELECT FROM {s}.jobs b WHERE b.queue = $1::text AND b.state = 'ready' AND NOT b.held AND NOT b.parked
				AND (b.group_key IS NOT NULL OR b.limit_key IS NOT NULL)
				AND (b.priority, b.run_at, b.id) < ($2::smallint, $3::timestamptz, $4::bigint) LIMIT $5::integer)
			LIMIT $5::integer) AS before`, j.Queue, int16(j.Priority), j.RunAt, int64(j.ID), int32(explainTurn))
	x.add(o)
}

// ExplainTree explains the root of the tree that a job is in, and then what it waits for, and what that waits for, down to
// jobs that run or that something else keeps: at most most jobs, those above first. Of many children it explains
// the first ten. The error has [ErrNotFound] in its chain when nothing is known of the tree.
func (s *Store) ExplainTree(ctx context.Context, id tree.ID, most int) ([]*Explanation, error) {
	job, err := s.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	var out []*Explanation
	todo, seen := []tree.ID{job.RootID}, map[tree.ID]bool{job.RootID: true}
	for len(todo) > 0 && len(out) < most {
		id, todo = todo[0], todo[1:]
		e, err := s.Explain(ctx, id)
		if errors.Is(err, ErrNotFound) && (len(out) > 0 || id != job.ID) {
			continue // it has ended since, and its history is not kept; so may a root have
		}
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		for _, o := range e.Reasons {
			for _, j := range o.Jobs {
				if !seen[j.ID] {
					seen[j.ID], todo = true, append(todo, j.ID)
				}
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("explain tree %d: %w", job.RootID, ErrNotFound)
	}
	return out, nil
}
