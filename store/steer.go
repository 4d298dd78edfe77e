package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// steerChunk bounds the rows of one transaction of an act on many jobs.
const steerChunk = 5_000

// steerPasses bounds how often an act looks again for jobs that were added while it went through a tree.
const steerPasses = 10

// Steered is what an act on jobs did.
type Steered struct {
	RootID  tree.ID
	Changed int      // jobs
	Woken   []string // queues in which something became ready, ascending
}

// act is one way to steer jobs: which of a scope's jobs it is for, and what it changes in each.
type act struct {
	action string // as the audit calls it
	want   string // over a row of scopeSQL, and of jobs again behind the lock
	set    string
	woken  bool // what it changed may be claimed now
	again  bool // jobs that come while it runs are wanted too
}

// Hold keeps live jobs from being started until they are released, whatever else happens to them: a hold is a flag of its
// own, and a finalizer that is held stays so when its children have settled. What runs goes on, and is held when it
// comes back; what a worker has claimed and not started goes back at no cost. With [ScopeBranch] and [ScopeTree] jobs
// that are added below are held too. Locks: jobs by ascending id, in chunks. Errors: [*NotLiveError].
func (s *Store) Hold(ctx context.Context, id tree.ID, scope Scope, by By) (Steered, error) {
	a := act{action: "hold", want: `NOT held`, set: `held = true`}
	if scope != ScopeJob {
		a = act{action: "hold", want: `NOT (held AND hold_below)`, set: `held = true, hold_below = true`, again: true}
	}
	return s.steer(ctx, id, scope, by, a, nil)
}

// Release undoes holds. Locks and errors: as Hold.
func (s *Store) Release(ctx context.Context, id tree.ID, scope Scope, by By) (Steered, error) {
	return s.steer(ctx, id, scope, by, act{
		action: "release", want: `(held OR hold_below)`, set: `held = false, hold_below = false, parked = false`, woken: true, again: scope != ScopeJob,
	}, nil)
}

// RunNow makes scheduled jobs ready, those that back off after a failure included, and lets finalizers that are to run later
// run as soon as their children have settled. Holds, pauses, groups and limits stay in force. Locks and errors: as Hold.
func (s *Store) RunNow(ctx context.Context, id tree.ID, scope Scope, by By) (Steered, error) {
	return s.steer(ctx, id, scope, by, act{
		action: "run_now", want: `(state = 'scheduled' OR state = 'waiting' AND run_at > now())`,
		set:   `run_at = now(), state = CASE state WHEN 'scheduled' THEN 'ready' ELSE state END`,
		woken: true,
	}, nil)
}

// SetPriority gives jobs another priority, [tree.MinPriority] to [tree.MaxPriority]; what runs has it when it comes back.
// Locks and errors: as Hold.
func (s *Store) SetPriority(ctx context.Context, id tree.ID, scope Scope, priority int, by By) (Steered, error) {
	if priority < tree.MinPriority || priority > tree.MaxPriority {
		return Steered{}, fmt.Errorf("coppice: priority %d is outside %d to %d", priority, tree.MinPriority, tree.MaxPriority)
	}
	return s.steer(ctx, id, scope, by, act{
		action: "priority", want: `priority <> $3::smallint`, set: `priority = $3::smallint`, woken: true,
	}, &priority)
}

func (s *Store) steer(ctx context.Context, id tree.ID, scope Scope, by By, a act, priority *int) (Steered, error) {
	out := Steered{}
	if err := by.check(); err != nil {
		return out, err
	}
	reach, err := s.reached(ctx, id, scope)
	out.RootID = reach.RootID
	if err != nil {
		return out, err
	}
	var held map[tree.WorkerID]struct{}
	for pass := 1; ; pass++ {
		rows, seen, err := s.wanted(ctx, id, reach.RootID, scope, a, priority)
		if err == nil && pass == 1 && seen == 0 {
			err = &NotLiveError{ID: reach.RootID, Tree: true}
		}
		if err != nil {
			return out, err
		}
		if len(rows) == 0 {
			break
		}
		for chunk := range slices.Chunk(rows, steerChunk) {
			noted := pass == 1 && out.Changed == 0
			workers, err := s.steerRows(ctx, id, scope, by, a, chunk, priority, noted, &out)
			if err != nil {
				return out, fmt.Errorf("%s job %d: %w", a.action, id, err)
			}
			for _, w := range workers {
				if held == nil {
					held = map[tree.WorkerID]struct{}{}
				}
				held[w] = struct{}{}
			}
		}
		if !a.again || pass >= steerPasses {
			break
		}
	}
	workers := make([]tree.WorkerID, 0, len(held))
	for w := range held {
		workers = append(workers, w)
	}
	s.tell(ctx, workers)
	return out, nil
}

// wanted lists the jobs of the scope that the act would change, ascending, and says how many jobs the scope has. Without a
// lock: they are looked at again.
func (s *Store) wanted(ctx context.Context, id, root tree.ID, scope Scope, a act, priority *int) (rows []int64, seen int, err error) {
	args := []any{int64(id), int64(root)}
	if priority != nil {
		args = append(args, int16(*priority))
	}
	err = s.pipe(ctx, step{sql: fixedPlan}, step{
		sql: s.sql(`SELECT id, ` + a.want + ` FROM (` + scopeSQL[scope] + `) AS reached`), args: args,
		rows: func(r pgx.Rows) error {
			rows, seen = nil, 0
			var id int64
			var want bool
			_, err := pgx.ForEachRow(r, []any{&id, &want}, func() error {
				if seen++; want {
					rows = append(rows, id)
				}
				return nil
			})
			return err
		},
	})
	slices.Sort(rows)
	if err != nil {
		err = fmt.Errorf("list jobs: %w", err)
	}
	return rows, seen, err
}

// steerRows changes one chunk: it locks the rows by ascending id, and looks at each again (jobs_pkey). The first chunk
// that changes something carries the audit's row. It answers the workers that run what is now held.
func (s *Store) steerRows(ctx context.Context, id tree.ID, scope Scope, by By, a act, rows []int64, priority *int, noted bool, out *Steered) ([]tree.WorkerID, error) {
	args := []any{rows, noted, priority, int64(id), int64(out.RootID), a.action, string(scope), by.Actor, orNull(by.Reason)}
	var changed int
	var woken []string
	var workers []tree.WorkerID
	err := s.pipe(ctx, step{sql: fixedPlan}, step{sql: s.lockSQL, args: []any{rows}}, step{
		sql: s.sql(`WITH changed AS (
				UPDATE {s}.jobs j SET ` + a.set + `
				FROM unnest($1::bigint[]) AS u(id)
				WHERE j.id = u.id AND ` + a.want + `
				RETURNING CASE WHEN j.state = 'ready' AND NOT j.held THEN j.queue END AS queue,
					CASE WHEN j.held THEN j.worker_id END AS worker, j.queue AS of, j.group_key, j.limit_key
			), marked AS (
				INSERT INTO {s}.marks (queue, group_key, limit_key)
				SELECT DISTINCT of, group_key, limit_key FROM changed WHERE group_key IS NOT NULL OR limit_key IS NOT NULL
			), noted AS (
				INSERT INTO {s}.audit (root_id, job_id, action, actor, reason, detail)
				SELECT $5::bigint, $4::bigint, $6::text, $8::text, $9::text,
					json_strip_nulls(json_build_object('scope', $7::text, 'priority', $3::smallint))
				WHERE $2::boolean AND EXISTS (SELECT FROM changed)
			)
			SELECT queue, worker, count(*) FROM changed GROUP BY queue, worker`),
		args: args,
		rows: func(r pgx.Rows) error {
			changed, woken, workers = 0, nil, nil
			var queue *string
			var worker *int64
			var n int
			_, err := pgx.ForEachRow(r, []any{&queue, &worker, &n}, func() error {
				changed += n
				if queue != nil && a.woken {
					woken = append(woken, *queue)
				}
				if worker != nil {
					workers = append(workers, tree.WorkerID(*worker))
				}
				return nil
			})
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(woken)
	out.Changed += changed
	out.Woken = union(out.Woken, slices.Compact(woken))
	return workers, nil
}
