package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// Scope is how much of a tree an act reaches.
type Scope string

// The scopes. Acts reach live jobs alone.
const (
	ScopeJob    Scope = "job"    // the job
	ScopeBranch Scope = "branch" // the job and everything below it
	ScopeTree   Scope = "tree"   // the whole tree that the job is in, whatever became of the job itself
)

func (s Scope) check() error {
	switch s {
	case ScopeJob, ScopeBranch, ScopeTree:
		return nil
	}
	return fmt.Errorf("coppice: %q is no scope; there are %q, %q and %q", tree.Clip(string(s), 40), ScopeJob, ScopeBranch, ScopeTree)
}

// NotLiveError refuses an act on a job, or a tree, that is not live.
type NotLiveError struct {
	ID    tree.ID
	State tree.State // of the job; "": there is no such job, or nothing is known of it any more
	Tree  bool       // nothing of tree ID is live
}

func (e *NotLiveError) Error() string {
	switch {
	case e.Tree:
		return fmt.Sprintf("coppice: no job of tree %d is live", e.ID)
	case e.State == tree.Dead:
		return fmt.Sprintf("coppice: job %d is in the dead-letter queue, not live", e.ID)
	case e.State != "":
		return fmt.Sprintf("coppice: job %d has ended already: it is %s", e.ID, e.State)
	}
	return fmt.Sprintf("coppice: there is no job %d, or its history was not kept", e.ID)
}

// notLive says what became of a job that is not live.
func (s *Store) notLive(ctx context.Context, id tree.ID) error {
	job, err := s.Job(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return &NotLiveError{ID: id}
	case err != nil:
		return err
	}
	return &NotLiveError{ID: id, State: job.State}
}

// Reach counts the live jobs that an act would reach.
type Reach struct {
	RootID    tree.ID `json:"root_id"`
	Jobs      int     `json:"jobs"` // all of them; the next four by state
	Ready     int     `json:"ready"`
	Scheduled int     `json:"scheduled"`
	Running   int     `json:"running"`
	Waiting   int     `json:"waiting"`
	Held      int     `json:"held"` // of all, those on hold
}

// Reach counts what an act of the scope would reach now. It reads every one of those jobs. By jobs_tree and jobs_pkey; no
// locks. Errors: [*NotLiveError].
func (s *Store) Reach(ctx context.Context, id tree.ID, scope Scope) (Reach, error) {
	out, err := s.reached(ctx, id, scope)
	if err != nil {
		return out, err
	}
	err = s.pipe(ctx, step{sql: fixedPlan}, step{
		sql:  s.sql(`SELECT state, held, count(*) FROM (` + scopeSQL[scope] + `) AS reached GROUP BY state, held`),
		args: []any{int64(id), int64(out.RootID)},
		rows: func(rows pgx.Rows) error {
			out = Reach{RootID: out.RootID}
			var state tree.State
			var held bool
			var n int
			_, err := pgx.ForEachRow(rows, []any{&state, &held, &n}, func() error {
				out.Jobs += n
				if held {
					out.Held += n
				}
				switch state {
				case tree.Ready:
					out.Ready += n
				case tree.Scheduled:
					out.Scheduled += n
				case tree.Running:
					out.Running += n
				default:
					out.Waiting += n
				}
				return nil
			})
			return err
		},
	})
	if err != nil {
		return out, fmt.Errorf("count jobs: %w", err)
	}
	if out.Jobs == 0 {
		return out, &NotLiveError{ID: out.RootID, Tree: true}
	}
	return out, nil
}

// reached checks the scope and finds the tree.
func (s *Store) reached(ctx context.Context, id tree.ID, scope Scope) (out Reach, err error) {
	if err = scope.check(); err != nil {
		return out, err
	}
	if scope == ScopeTree {
		out.RootID, err = s.rootOf(ctx, id)
		return out, err
	}
	row, err := s.liveRow(ctx, id)
	out.RootID = row.root
	return out, err
}

// scopeSQL lists the live jobs of a scope: $1 is the job, $2 its tree. By jobs_pkey and jobs_tree.
var scopeSQL = map[Scope]string{
	ScopeJob: `SELECT id, state, held, hold_below, priority, run_at FROM {s}.jobs WHERE id = $1::bigint AND $2::bigint IS NOT NULL`,
	ScopeBranch: `WITH RECURSIVE branch AS (
		SELECT id, state, held, hold_below, priority, run_at FROM {s}.jobs WHERE id = $1::bigint
		UNION ALL
		SELECT c.id, c.state, c.held, c.hold_below, c.priority, c.run_at
		FROM branch b JOIN {s}.jobs c ON c.root_id = $2::bigint AND c.parent_id = b.id
	) SELECT * FROM branch`,
	ScopeTree: `SELECT id, state, held, hold_below, priority, run_at FROM {s}.jobs WHERE id = $2::bigint AND $1::bigint IS NOT NULL
		UNION ALL
		SELECT id, state, held, hold_below, priority, run_at FROM {s}.jobs WHERE root_id = $2::bigint AND parent_id IS NOT NULL`,
}
