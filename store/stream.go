package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coppicehq/coppice/tree"
)

// Added is what AddChildren did.
type Added struct {
	Made  int      // children that are new
	Found int      // children that were there already, by their keys
	Woken []string // the queues of what was made
}

// NotOpenError refuses to add children to a job, or to seal it.
type NotOpenError struct {
	ID      tree.ID
	State   tree.State // "": there is no such job, or nothing is known of it any more
	Sealed  bool       // it is live, and sealed: no more children will come
	Closing string     // it is live, and about to end so: "cancelled", or a [tree.Reason]
}

func (e *NotOpenError) Error() string {
	switch {
	case e.State == "":
		return fmt.Sprintf("coppice: there is no job %d to add children to", e.ID)
	case e.State == tree.Dead:
		return fmt.Sprintf("coppice: job %d takes no more children: it is in the dead-letter queue; retry it first", e.ID)
	case !e.State.Live():
		return fmt.Sprintf("coppice: job %d takes no more children: it is %s", e.ID, e.State)
	case e.Closing != "":
		return fmt.Sprintf("coppice: job %d takes no more children: it is being closed (%s)", e.ID, e.Closing)
	case e.Sealed:
		return fmt.Sprintf("coppice: job %d takes no more children: it is sealed; only jobs inserted with tree.Open take any later", e.ID)
	}
	return fmt.Sprintf("coppice: job %d takes no children: it is %s", e.ID, e.State)
}

// AddChildren puts children under a job that was inserted with [tree.Open] and is not sealed, in one transaction; earlier
// children may be running, or have ended. A child whose key one of the job's children has, or had, is not made again:
// whoever adds children with keys may begin anew after a crash, or when an answer was lost. Errors, after which
// nothing was added: [*NotOpenError]; [*DeadChildError]; [*DuplicateError] for a dedup key that is held.
//
// Locks: the parent, before its rows if keys must be compared, else after them, for a moment; its new rows, which have higher
// ids; unique keys in ascending order.
func (s *Store) AddChildren(ctx context.Context, parent tree.ID, plan *tree.Plan) (*Added, error) {
	for try := 1; ; try++ {
		var out *Added
		err := s.atomically(ctx, func(tx pgx.Tx) (err error) {
			out, err = s.addChildren(ctx, tx, parent, plan)
			return err
		})
		if err == nil {
			return out, nil
		}
		if errors.Is(err, errGone) { // looked up behind the transaction, which has its connection to itself
			err = s.notOpen(ctx, parent)
		}
		if try >= keyTries || !errors.Is(err, errKeyFreed) && !errors.Is(err, errHoldChanged) {
			return nil, fmt.Errorf("add children to job %d: %w", parent, err)
		}
		if err := pause(ctx, min(try, 6)); err != nil {
			return nil, err
		}
	}
}

// errHoldChanged says that the parent's branch was held or released while its children were on their way.
var errHoldChanged = errors.New("the parent's hold changed; add the children again")

// errGone says that the parent is not live.
var errGone = errors.New("the parent is not live")

func (s *Store) addChildren(ctx context.Context, tx pgx.Tx, parent tree.ID, plan *tree.Plan) (*Added, error) {
	lock := ""
	if hasDedup(plan) || hasChildKeys(plan) {
		lock = " FOR UPDATE"
	}
	on := graft{parent: int64(parent)}
	// By jobs_pkey.
	if err := s.openParent(ctx, tx, `SELECT root_id, round, hold_below, state, sealed, coalesce(closing, '') FROM {s}.jobs WHERE id = $1::bigint`+lock, &on); err != nil {
		return nil, err
	}
	var there []int
	if lock != "" {
		var err error
		if there, err = s.childrenThere(ctx, tx, on, plan, true); err != nil {
			return nil, err
		}
	}
	rest, _ := plan.Without(there)
	rest, err := s.insertGraft(ctx, tx, rest, &on)
	if err != nil {
		return nil, err
	}
	held := on.held
	err = s.openParent(ctx, tx, `
		UPDATE {s}.jobs SET pending = pending + $2::integer WHERE id = $1::bigint
		RETURNING root_id, round, hold_below, state, sealed, coalesce(closing, '')`, &on, int32(rest.Roots))
	if err == nil && on.held != held {
		err = errHoldChanged
	}
	if err != nil {
		return nil, err
	}
	return &Added{Made: rest.Roots, Found: len(there), Woken: rest.Queues()}, nil
}

// openParent reads what the children need to know of their parent, and refuses one that takes none, or is gone (errGone).
func (s *Store) openParent(ctx context.Context, tx pgx.Tx, sql string, on *graft, more ...any) error {
	var state tree.State
	var sealed bool
	var closing string
	err := tx.QueryRow(ctx, s.sql(sql), append([]any{on.parent}, more...)...).Scan(&on.root, &on.round, &on.held, &state, &sealed, &closing)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errGone
	case err != nil:
		return err
	case state != tree.Waiting || sealed || closing != "":
		return &NotOpenError{ID: tree.ID(on.parent), State: state, Sealed: sealed, Closing: closing}
	}
	return nil
}

// notOpen says what became of a job that is not live.
func (s *Store) notOpen(ctx context.Context, id tree.ID) error {
	var gone *NotLiveError
	if err := s.notLive(ctx, id); !errors.As(err, &gone) {
		return err
	}
	return &NotOpenError{ID: id, State: gone.State}
}

func hasChildKeys(plan *tree.Plan) bool {
	for i := range plan.Specs {
		if plan.Specs[i].Parent < 0 && plan.Specs[i].ChildKey != "" {
			return true
		}
	}
	return false
}

// sealSQL seals an open job, by jobs_pkey, and makes it ready if it has nothing to wait for. A settle that holds the row
// is waited for, and what it made of the row is what counts.
const sealSQL = `
UPDATE {s}.jobs p SET sealed = true, seal_by = NULL,
	state = CASE WHEN NOT ` + sealedGate + ` THEN p.state WHEN p.run_at > now() THEN 'scheduled' ELSE 'ready' END
FROM (SELECT 0 AS n, 0 AS dead) m
WHERE p.id = $1::bigint AND p.state = 'waiting' AND NOT p.sealed AND p.closing IS NULL
RETURNING CASE WHEN p.state = 'waiting' THEN '' ELSE p.queue END`

// Seal says that no more children will come. The job runs when those that it has are settled, which may be at once. It
// answers the queue in which the job became ready, if it did. Sealing what is sealed changes nothing. Errors:
// [*NotOpenError]. Locks: the job's row.
func (s *Store) Seal(ctx context.Context, parent tree.ID) (woken []string, err error) {
	var queue string
	err = again(ctx, func() error { return s.pool.QueryRow(ctx, s.sql(sealSQL), int64(parent)).Scan(&queue) })
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = s.mayBeSealed(ctx, parent)
	case err == nil && queue != "":
		woken = []string{queue}
	}
	if err != nil {
		return nil, fmt.Errorf("seal job %d: %w", parent, err)
	}
	return woken, nil
}

// mayBeSealed is nil for a job that was sealed before.
func (s *Store) mayBeSealed(ctx context.Context, id tree.ID) error {
	job, err := s.Job(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return &NotOpenError{ID: id}
	}
	if err != nil || job.Place == PlaceLive && job.Sealed {
		return err
	}
	return &NotOpenError{ID: id, State: job.State, Closing: job.Closing}
}

// KeepOpen gives an open job d from now on to be sealed: more than zero, at most [tree.MaxDuration]. Errors:
// [*NotOpenError]. Locks: the job's row.
func (s *Store) KeepOpen(ctx context.Context, parent tree.ID, d time.Duration) error {
	if d <= 0 || d > tree.MaxDuration {
		return fmt.Errorf("coppice: %v to be sealed is outside 0 to %v", d, tree.MaxDuration)
	}
	var tag pgconn.CommandTag
	err := again(ctx, func() (err error) {
		tag, err = s.pool.Exec(ctx, s.sql(`
			UPDATE {s}.jobs SET seal_by = now() + $2::bigint * interval '1 millisecond'
			WHERE id = $1::bigint AND state = 'waiting' AND NOT sealed AND closing IS NULL`), int64(parent), millisUp(d))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep job %d open: %w", parent, err)
	}
	if tag.RowsAffected() == 1 {
		return nil
	}
	job, err := s.Job(ctx, parent)
	if errors.Is(err, ErrNotFound) {
		return &NotOpenError{ID: parent}
	}
	if err != nil {
		return err
	}
	return &NotOpenError{ID: parent, State: job.State, Sealed: job.Sealed, Closing: job.Closing}
}
