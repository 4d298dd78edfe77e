package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// FannedOut is what a fan-out did.
type FannedOut struct {
	// Lost: the fence had been passed, and nothing was written.
	Lost bool
	// Stopped: the job was asked to stop, and nothing was written. It is to be settled as [EndStopped].
	Stopped bool
	// Made is how many children there are now that were not there before.
	Made int
	// Found is how many of the children there were already, by their keys.
	Found int
	// Woken are the queues in which something became ready: those of the children, and the parent's own when it
	// has nothing to wait for. Ascending.
	Woken []string
}

// DeadChildError refuses a fan-out because one of its children, by its key, is in the dead-letter queue: neither
// is it there to be waited for, nor may another take its place.
type DeadChildError struct {
	Key string
	ID  tree.ID // the dead letter
}

func (e *DeadChildError) Error() string {
	return fmt.Sprintf("coppice: child key %q is that of dead letter %d; retry or delete that one, or use another key", e.Key, e.ID)
}

// FanOut ends an attempt by giving its job children to wait for: in one transaction the children are inserted,
// and the job waits for them, in a new round with a new budget of attempts, or is ready at once if there
// are none. A child whose key one of the job's children has already is not made again, also when that one
// has ended. Errors: [*DeadChildError]; [*DuplicateError] for a dedup key that is held; nothing is written
// then, and the claim stands.
//
// Locks: the job's row, then the rows it makes, which have higher ids, and their unique keys in ascending order.
func (s *Store) FanOut(ctx context.Context, worker tree.WorkerID, f Fence, plan *tree.Plan) (*FannedOut, error) {
	for try := 1; ; try++ {
		var out *FannedOut
		err := s.atomically(ctx, func(tx pgx.Tx) (err error) {
			out, err = s.fanOut(ctx, tx, worker, f, plan)
			return err
		})
		if err == nil {
			return out, nil
		}
		if try >= keyTries || !errors.Is(err, errKeyFreed) {
			return nil, fmt.Errorf("fan out from job %d: %w", f.ID, err)
		}
		if err := pause(ctx, min(try, 6)); err != nil {
			return nil, err
		}
	}
}

func (s *Store) fanOut(ctx context.Context, tx pgx.Tx, worker tree.WorkerID, f Fence, plan *tree.Plan) (*FannedOut, error) {
	on := graft{parent: int64(f.ID)}
	var queue string
	var stopped bool
	// By jobs_pkey.
	err := tx.QueryRow(ctx, s.sql(`
		SELECT root_id, round + 1, hold_below, queue, closing IS NOT NULL FROM {s}.jobs
		WHERE id = $1::bigint AND claim_seq = $2::bigint AND worker_id = $3::bigint FOR UPDATE`),
		int64(f.ID), f.Seq, int64(worker)).Scan(&on.root, &on.round, &on.held, &queue, &stopped)
	if errors.Is(err, pgx.ErrNoRows) {
		return &FannedOut{Lost: true}, nil
	}
	if err != nil {
		return nil, err
	}
	if stopped {
		return &FannedOut{Stopped: true}, nil
	}
	there, err := s.childrenThere(ctx, tx, on, plan, on.round > 1)
	if err != nil {
		return nil, err
	}
	rest, _ := plan.Without(there)
	if rest, err = s.insertGraft(ctx, tx, rest, &on); err != nil {
		return nil, err
	}
	// Every child has settled when a finalizer runs, and a job that works has none, so what is pending now is
	// what was made.
	var state tree.State
	var keys Keys
	err = tx.QueryRow(ctx, s.sql(`
		UPDATE {s}.jobs SET worker_id = NULL, round = $2::integer, attempt = 0, pending = pending + $3::integer,
			state = CASE WHEN pending + $3::integer > 0 THEN 'waiting' WHEN run_at > now() THEN 'scheduled' ELSE 'ready' END
		WHERE id = $1::bigint RETURNING state, coalesce(group_key, ''), coalesce(limit_key, '')`),
		on.parent, on.round, int32(rest.Roots)).Scan(&state, &keys.Group, &keys.Limit)
	if err != nil {
		return nil, err
	}
	mark, marked := s.markStep([]Ending{{Queue: queue, Keys: keys}})
	if marked {
		if _, err := tx.Exec(ctx, mark.sql, mark.args...); err != nil {
			return nil, err
		}
	}
	out := &FannedOut{Made: rest.Roots, Found: len(there), Woken: rest.Queues()}
	switch {
	case state != tree.Waiting:
		out.Woken = []string{queue}
	case marked:
		out.Woken = append(out.Woken, queue)
	}
	return out, nil
}

// insertGraft inserts the children by the way that suits their number and keys. It answers those that were made: all but
// what was to be skipped.
func (s *Store) insertGraft(ctx context.Context, tx pgx.Tx, plan *tree.Plan, on *graft) (made *tree.Plan, err error) {
	switch {
	case len(plan.Specs) == 0:
	case hasDedup(plan):
		return s.insertSkipping(ctx, pgxTx{tx}, plan, on)
	case len(plan.Specs) >= bulk:
		_, err = s.copyIn(ctx, tx, plan, on)
	default:
		_, err = s.insertChunks(ctx, pgxTx{tx}, plan, on)
	}
	return plan, err
}

// childrenThereSQL looks for children of a job by their keys, driven by the keys: live ones (jobs_child), ones that ended,
// which are remembered in results (results_child), and dead letters (dead_jobs_child). A job that has a million of either
// costs a look for each key and index. It locks nothing.
const childrenThereSQL = `
SELECT u.n::integer, coalesce(d.id, 0)
FROM unnest($2::text[]) WITH ORDINALITY AS u(key, n)
LEFT JOIN LATERAL (SELECT true AS yes FROM {s}.jobs c WHERE c.parent_id = $1::bigint AND c.child_key = u.key LIMIT 1) l ON true
LEFT JOIN LATERAL (SELECT true AS yes FROM {s}.results c WHERE c.parent_id = $1::bigint AND c.child_key = u.key LIMIT 1) e ON true
LEFT JOIN LATERAL (SELECT c.id FROM {s}.dead_jobs c WHERE c.parent_id = $1::bigint AND c.child_key = u.key LIMIT 1) d ON true
WHERE l.yes OR e.yes OR d.id IS NOT NULL`

// childrenThere finds the children of the plan, by place, whose keys children of the parent have already. The parent is
// locked, so that no child can go from one table to another meanwhile. may: it may have had children.
func (s *Store) childrenThere(ctx context.Context, tx pgx.Tx, on graft, plan *tree.Plan, may bool) ([]int, error) {
	var at []int
	var keys []string
	for i := range plan.Specs {
		if spec := &plan.Specs[i]; spec.Parent < 0 && spec.ChildKey != "" {
			at = append(at, i)
			keys = append(keys, spec.ChildKey)
		}
	}
	if len(keys) == 0 || !may {
		return nil, nil
	}
	if _, err := tx.Exec(ctx, fixedPlan); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, s.sql(childrenThereSQL), on.parent, keys)
	if err != nil {
		return nil, err
	}
	var there []int
	var n int
	var dead int64
	_, err = pgx.ForEachRow(rows, []any{&n, &dead}, func() error {
		if dead != 0 {
			return &DeadChildError{Key: keys[n-1], ID: tree.ID(dead)}
		}
		there = append(there, at[n-1])
		return nil
	})
	slices.Sort(there)
	return there, err
}
