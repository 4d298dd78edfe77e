package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/testcheck"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// task is the args of every job of these tests; what a job is told to be is in its options.
type task struct{}

func (task) Kind() string { return "task" }

// patience bounds every wait of a test: it is how long a broken store takes to fail, not how long a sound one
// takes.
const patience = 30 * time.Second

// kit is a database of the test's own with a store on it. The invariant check and the search for deadlocks in
// the server's log run when the test ends.
type kit struct {
	*store.Store
	t  testing.TB
	db *testdb.DB
}

func newKit(t testing.TB) *kit {
	t.Helper()
	db := testdb.New(t)
	s, err := store.New(db.Pool, db.Schema)
	require.NoError(t, err)
	t.Cleanup(func() {
		testcheck.AssertInvariants(t, s)
		db.AssertNoDeadlocks(t)
	})
	return &kit{Store: s, t: t, db: db}
}

// onPool returns the store on a pool of its own with n connections, all of them open.
func (k *kit) onPool(n int) *store.Store {
	k.t.Helper()
	config, err := pgxpool.ParseConfig(k.db.URL)
	require.NoError(k.t, err)
	config.MaxConns = int32(n)
	config.ConnConfig.RuntimeParams["application_name"] = k.t.Name()
	pool, err := pgxpool.NewWithConfig(k.t.Context(), config)
	require.NoError(k.t, err)
	k.t.Cleanup(pool.Close)
	conns := make([]*pgxpool.Conn, n)
	for i := range conns {
		conns[i], err = pool.Acquire(k.t.Context())
		require.NoError(k.t, err)
	}
	for _, c := range conns {
		c.Release()
	}
	s, err := store.New(pool, k.db.Schema)
	require.NoError(k.t, err)
	return s
}

// rounds is how often a race is run: a tenth as often with -short. A change to what is raced deserves many more: -count.
func rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// worker registers a worker whose lease outlasts the test.
func (k *kit) worker() tree.WorkerID {
	k.t.Helper()
	id, err := k.Register(k.t.Context(), store.WorkerInfo{
		Name: "test", Host: "test", PID: 1, Queues: []string{tree.DefaultQueue}, Kinds: []string{"task"}, Lease: time.Hour,
	})
	require.NoError(k.t, err)
	return id
}

// insert inserts jobs and trees and returns the ids of all of them, every node before its children.
func (k *kit) insert(nodes ...*tree.Node) []tree.ID {
	k.t.Helper()
	plan, err := tree.NewPlan(nodes...)
	require.NoError(k.t, err)
	rows, err := k.Insert(k.t.Context(), plan)
	require.NoError(k.t, err)
	ids := make([]tree.ID, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	return ids
}

// claim takes up to n jobs of a queue, finalizers too.
func (k *kit) claim(w tree.WorkerID, queue string, n int) []store.Claim {
	k.t.Helper()
	got, err := k.Claim(k.t.Context(), store.ClaimRequest{
		WorkerID: w, Queue: queue, Limit: n, WorkKinds: []string{"task"}, FinalizeKinds: []string{"task"}, Promote: true,
	})
	require.NoError(k.t, err)
	return got.Jobs
}

// settle settles and expects that nothing was lost.
func (k *kit) settle(w tree.WorkerID, endings ...store.Ending) *store.Settled {
	k.t.Helper()
	got, err := k.Settle(k.t.Context(), w, endings)
	require.NoError(k.t, err)
	require.Empty(k.t, got.Lost)
	return got
}

// job reads a job from wherever it is.
func (k *kit) job(id tree.ID) *store.JobRow {
	k.t.Helper()
	row, err := k.Job(k.t.Context(), id)
	require.NoError(k.t, err)
	return row
}

// exec runs statements on the test's database.
func (k *kit) exec(sql string, args ...any) {
	k.t.Helper()
	_, err := k.db.Pool.Exec(k.t.Context(), sql, args...)
	require.NoError(k.t, err)
}

// number asks for one number.
func (k *kit) number(sql string, args ...any) int {
	k.t.Helper()
	var n int
	require.NoError(k.t, k.db.Pool.QueryRow(k.t.Context(), sql, args...).Scan(&n))
	return n
}

// watchReadiness notes every time a waiting job becomes ready or scheduled, with how many of its children live
// at that moment: an observer of its own, which does not go by what the store reports.
func (k *kit) watchReadiness() {
	k.t.Helper()
	k.exec(`CREATE TABLE readied (id bigint NOT NULL, live bigint NOT NULL);
		CREATE FUNCTION note_readied() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO readied SELECT new.id, (SELECT count(*) FROM coppice.jobs c WHERE c.parent_id = new.id);
			RETURN NULL;
		END $$;
		CREATE TRIGGER note_readied AFTER UPDATE ON coppice.jobs FOR EACH ROW
			WHEN (old.state = 'waiting' AND new.state IN ('ready', 'scheduled')) EXECUTE FUNCTION note_readied()`)
}

// requireReadiedOnce expects that n jobs became ready since watchReadiness, each once and none of them early.
func (k *kit) requireReadiedOnce(n int) {
	k.t.Helper()
	require.Equal(k.t, n, k.number(`SELECT count(DISTINCT id) FROM readied`), "finalizers that became ready")
	require.Equal(k.t, n, k.number(`SELECT count(*) FROM readied`), "times that a finalizer became ready")
	require.Zero(k.t, k.number(`SELECT count(*) FROM readied WHERE live > 0`), "finalizers that became ready early")
}

// completed ends a claim well, with a result if it has a parent.
func completed(c *store.Claim) store.Ending {
	e := ending(c, store.EndCompleted)
	if c.ParentID != 0 {
		e.Result = fmt.Appendf(nil, `{"id": %d}`, c.ID)
	}
	return e
}

// dead ends a claim in the dead-letter queue.
func dead(c *store.Claim) store.Ending {
	e := ending(c, store.EndDead)
	e.Reason, e.Outcome, e.Error = tree.ReasonFatal, tree.OutcomeError, "no such file"
	return e
}

// failed ends a claim with a failure after which the job is ready at once.
func failed(c *store.Claim) store.Ending {
	e := ending(c, store.EndRetry)
	e.Outcome, e.Error = tree.OutcomeError, "try again"
	return e
}

func ending(c *store.Claim, end store.End) store.Ending {
	return store.Ending{Fence: c.Fence, ParentID: c.ParentID, Round: c.Round, Queue: c.Queue, Keys: c.Keys, End: end, Keep: true}
}

// blocked waits until n statements of the test's database wait for a lock.
func (k *kit) blocked(n int) {
	k.t.Helper()
	require.Eventually(k.t, func() bool {
		return k.number(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`) >= n
	}, patience, 2*time.Millisecond, "%d statements that wait for a lock", n)
}

// lock holds rows with an UPDATE in a transaction of its own until the returned function is called, which
// commits it.
func (k *kit) lock(sql string, args ...any) (commit func()) {
	k.t.Helper()
	tx, err := k.db.Pool.Begin(k.t.Context())
	require.NoError(k.t, err)
	k.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	tag, err := tx.Exec(k.t.Context(), sql, args...)
	require.NoError(k.t, err)
	require.Positive(k.t, tag.RowsAffected())
	return func() {
		k.t.Helper()
		require.NoError(k.t, tx.Commit(k.t.Context()))
	}
}

// text asks for one text.
func (k *kit) text(sql string, args ...any) string {
	k.t.Helper()
	var s string
	require.NoError(k.t, k.db.Pool.QueryRow(k.t.Context(), sql, args...).Scan(&s))
	return s
}

// ids asks for ids.
func (k *kit) ids(sql string, args ...any) ([]tree.ID, error) {
	rows, err := k.db.Pool.Query(k.t.Context(), sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[tree.ID])
}
