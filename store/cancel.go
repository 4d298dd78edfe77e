package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// Cancelled is what a cancellation did.
type Cancelled struct {
	RootID tree.ID
	Swept
	// Already: it was being closed before, by a cancellation, a deadline or a dead child; who came first stays.
	Already bool
}

// HasChildrenError refuses to cancel a job alone that has live children.
type HasChildrenError struct {
	ID       tree.ID
	Children int // live ones
}

func (e *HasChildrenError) Error() string {
	return fmt.Sprintf("coppice: job %d has %d live children; cancel its branch, or them", e.ID, e.Children)
}

// Cancel ends a job and all that is below it: what does not run goes to the history as cancelled, what runs is
// asked to stop and ends as cancelled when its handler returns, unless it completes. Dead letters stay where they are.
// [ScopeTree] cancels the tree that the job is in, whatever has become of the job; [ScopeJob] refuses a job with live
// children. The tree's ancestors count a cancelled child as settled.
//
// Large trees take several transactions; when it returns without an error everything that does not run has ended. After
// an error it may have begun, and a reaper carries on. Errors: [*NotLiveError], [*HasChildrenError], the database's.
//
// Locks: docs/internals.md, Closing.
func (s *Store) Cancel(ctx context.Context, id tree.ID, scope Scope, by By) (Cancelled, error) {
	var out Cancelled
	if err := scope.check(); err != nil {
		return out, err
	}
	if err := by.check(); err != nil {
		return out, err
	}
	seeds, err := s.cancelSeeds(ctx, id, scope, &out)
	if err != nil {
		return out, err
	}
	rows, err := s.small(ctx, id, out.RootID, scope)
	if err != nil {
		return out, fmt.Errorf("cancel job %d: %w", id, err)
	}
	start := closing{as: string(tree.Cancelled), action: "cancel", by: by, seeds: seeds}
	marked, err := s.closeRows(ctx, union(seeds, rows), &start, &out.Swept)
	if err == nil {
		s.tell(ctx, out.Workers)
		if out.Already = len(marked) == 0 && out.Stopping == 0 && out.Cancelled == 0; out.Already && out.DeadLettered == 0 && scope != ScopeTree {
			if _, live := s.liveRow(ctx, id); live != nil {
				return out, live
			}
		}
		var more Swept
		more, err = s.Sweep(ctx, out.RootID)
		out.Add(more)
	}
	if err != nil {
		return out, fmt.Errorf("cancel job %d: %w", id, err)
	}
	return out, nil
}

// small lists the jobs of the scope, if they are few enough to be closed in one transaction: then all of them are, or have
// been asked to be, at once. Otherwise a sweep marks them by and by.
func (s *Store) small(ctx context.Context, id, root tree.ID, scope Scope) ([]int64, error) {
	rows, err := s.ids(ctx, `SELECT id FROM (`+scopeSQL[scope]+`) AS reached LIMIT $3::integer`, int64(id), int64(root), int32(sweepChunk+1))
	if len(rows) > sweepChunk {
		return nil, err
	}
	slices.Sort(rows)
	return rows, err
}

// cancelSeeds finds where a cancellation begins.
func (s *Store) cancelSeeds(ctx context.Context, id tree.ID, scope Scope, out *Cancelled) ([]int64, error) {
	if scope == ScopeTree {
		root, err := s.rootOf(ctx, id)
		if err != nil {
			return nil, err
		}
		out.RootID = root
		seeds, err := s.ids(ctx, topmostSQL, int64(root))
		if err == nil && len(seeds) == 0 {
			err = &NotLiveError{ID: root, Tree: true}
		}
		return seeds, err
	}
	row, err := s.liveRow(ctx, id)
	if err != nil {
		return nil, err
	}
	out.RootID = row.root
	if scope == ScopeJob && row.pending > 0 {
		return nil, &HasChildrenError{ID: id, Children: row.pending}
	}
	return []int64{int64(id)}, nil
}

// topmostSQL lists the live jobs of a tree whose parent is not live: its root, if that lives. By jobs_pkey and jobs_tree.
const topmostSQL = `
SELECT id FROM {s}.jobs WHERE id = $1::bigint
UNION ALL
SELECT j.id FROM {s}.jobs j
WHERE j.root_id = $1::bigint AND j.parent_id IS NOT NULL
	AND NOT EXISTS (SELECT FROM {s}.jobs r WHERE r.id = $1::bigint)
	AND NOT EXISTS (SELECT FROM {s}.jobs p WHERE p.id = j.parent_id)`

// CloseOverdue begins to close what is past its time, at most limit jobs of each kind: jobs past their deadline, as
// cancelled, and parents that were not sealed in time, as dead letters. It answers what ended at once; a Sweep
// of the trees ([Store.ClosingTrees]) does the rest. Locks: docs/internals.md, Closing.
func (s *Store) CloseOverdue(ctx context.Context, limit int) (Swept, error) {
	var total Swept
	var failed []error
	for _, kind := range []struct {
		sql  string
		what closing
	}{
		{overdueSQL, closing{as: string(tree.Cancelled), action: "deadline", by: By{Reason: "its deadline passed"}}},
		{unsealedSQL, closing{
			as: string(tree.ReasonNeverSealed), action: "never_sealed", by: By{Reason: "it was not sealed in time: whoever added its children stopped half-way"},
		}},
	} {
		rows, err := s.ids(ctx, kind.sql, int32(limit))
		if err == nil && len(rows) > 0 {
			err = s.closeEach(ctx, rows, kind.what, &total)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", kind.what.action, err))
		}
	}
	s.tell(ctx, total.Workers)
	return total, errors.Join(failed...)
}

// closeEach closes rows together, or one by one if the server refuses them together: what it will not take holds up no other.
func (s *Store) closeEach(ctx context.Context, rows []int64, what closing, total *Swept) error {
	what.seeds = rows
	_, err := s.closeRows(ctx, rows, &what, total)
	if err == nil || len(rows) == 1 || !Refused(err) && !CutOff(err) {
		return err
	}
	var failed []error
	for _, id := range rows {
		if err := s.closeEach(ctx, []int64{id}, what, total); err != nil {
			failed = append(failed, fmt.Errorf("job %d: %w", id, err))
		}
	}
	return errors.Join(failed...)
}

const (
	// overdueSQL reads by jobs_deadline.
	overdueSQL = `
		SELECT id FROM {s}.jobs WHERE deadline_at <= now() AND closing IS NULL ORDER BY deadline_at LIMIT $1::integer`
	// unsealedSQL reads by jobs_unsealed.
	unsealedSQL = `
		SELECT id FROM {s}.jobs WHERE seal_by <= now() AND NOT sealed AND closing IS NULL ORDER BY seal_by LIMIT $1::integer`
)

// ClosingTrees lists trees in which something closes that does not run, with ids above after, ascending, at most limit: a
// [Store.Sweep] may have work in them. By jobs_closing, skipping from tree to tree; no locks.
func (s *Store) ClosingTrees(ctx context.Context, after tree.ID, limit int) ([]tree.ID, error) {
	roots, err := s.ids(ctx, closingTreesSQL, int64(after), int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list closing trees: %w", err)
	}
	out := make([]tree.ID, len(roots))
	for i, id := range roots {
		out[i] = tree.ID(id)
	}
	return out, nil
}

const closingTreesSQL = `
WITH RECURSIVE closing AS (
	(SELECT root_id, 1 AS n FROM {s}.jobs WHERE closing IS NOT NULL AND root_id > $1::bigint ORDER BY root_id LIMIT 1)
	UNION ALL
	SELECT (SELECT j.root_id FROM {s}.jobs j WHERE j.closing IS NOT NULL AND j.root_id > c.root_id ORDER BY j.root_id LIMIT 1), n + 1
	FROM closing c WHERE c.root_id IS NOT NULL AND n < $2::integer
)
SELECT c.root_id FROM closing c
WHERE EXISTS (SELECT FROM {s}.jobs j WHERE j.root_id = c.root_id AND j.closing IS NOT NULL AND j.state <> 'running')`

// liveRow is what acts on a job need to know of it first.
type liveRow struct {
	root    tree.ID
	pending int
}

// liveRow reads by jobs_pkey, without a lock. Errors: *NotLiveError.
func (s *Store) liveRow(ctx context.Context, id tree.ID) (liveRow, error) {
	var row liveRow
	var root int64
	err := s.pool.QueryRow(ctx, s.sql(`SELECT root_id, pending FROM {s}.jobs WHERE id = $1::bigint`), int64(id)).Scan(&root, &row.pending)
	row.root = tree.ID(root)
	if errors.Is(err, pgx.ErrNoRows) {
		return row, s.notLive(ctx, id)
	}
	if err != nil {
		return row, fmt.Errorf("read job %d: %w", id, err)
	}
	return row, nil
}

// rootOf finds the tree of a job, wherever the job is.
func (s *Store) rootOf(ctx context.Context, id tree.ID) (tree.ID, error) {
	job, err := s.Job(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return id, &NotLiveError{ID: id}
	}
	if err != nil {
		return 0, err
	}
	return job.RootID, nil
}
