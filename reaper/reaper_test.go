package reaper_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/testcheck"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/reaper"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func TestMain(m *testing.M) { testdb.Main(m) }

type job struct{}

func (job) Kind() string { return "job" }

func newStore(t *testing.T) (*store.Store, *testdb.DB) {
	t.Helper()
	db := testdb.New(t)
	s, err := store.New(db.Pool, db.Schema)
	require.NoError(t, err)
	t.Cleanup(func() { testcheck.AssertInvariants(t, s); db.AssertNoDeadlocks(t) })
	return s, db
}

// claimAll lets a worker take everything and then die.
func claimAll(t *testing.T, s *store.Store, db *testdb.DB, nodes ...*tree.Node) tree.WorkerID {
	t.Helper()
	plan, err := tree.NewPlan(nodes...)
	require.NoError(t, err)
	_, err = s.Insert(t.Context(), plan)
	require.NoError(t, err)
	w, err := s.Register(t.Context(), store.WorkerInfo{Name: "mortal", Queues: []string{"default"}, Kinds: []string{"job"}, Lease: time.Hour})
	require.NoError(t, err)
	got, err := s.Claim(t.Context(), store.ClaimRequest{WorkerID: w, Queue: "default", Limit: 100, WorkKinds: []string{"job"}})
	require.NoError(t, err)
	require.NotEmpty(t, got.Jobs)
	return w
}

func expire(t *testing.T, db *testdb.DB, w tree.WorkerID) {
	t.Helper()
	_, err := db.Pool.Exec(t.Context(), `UPDATE coppice.workers SET expires_at = now() - interval '1 second' WHERE id = $1`, int64(w))
	require.NoError(t, err)
}

func TestJobsOfADeadWorkerComeBackOrDieByTheirOwnRows(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	w := claimAll(t, s, db,
		tree.New(job{}),
		tree.New(job{}, tree.OnDead(tree.Proceed)).Add(
			tree.New(job{}, tree.MaxAttempts(1)),
			tree.New(job{}, tree.OnLost(tree.LostDeadLetter)),
		))
	r, err := reaper.New(s, reaper.Config{})
	require.NoError(t, err)
	require.NoError(t, r.Pass(t.Context()))
	require.Equal(t, map[string]int{"running": 3, "waiting": 1}, count(t, db), "the lease holds")
	expire(t, db, w)
	require.NoError(t, r.Pass(t.Context()))
	require.Equal(t, map[string]int{"ready": 2, "dead": 2}, count(t, db), "the retried job, and the parent whose children died")
	var lost, errs int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT (SELECT sum(lost) FROM (SELECT lost FROM coppice.jobs UNION ALL SELECT lost FROM coppice.dead_jobs) a),
		(SELECT count(*) FROM coppice.job_errors WHERE outcome = 'lost')`).Scan(&lost, &errs))
	require.Equal(t, 3, lost)
	require.Equal(t, 3, errs)
	held, err := s.Beat(t.Context(), w, time.Hour, false)
	require.NoError(t, err)
	require.False(t, held, "the worker is told that it lost its lease")
}

func TestABeatThatLandsFirstSavesTheWorker(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	w := claimAll(t, s, db, tree.New(job{}))
	expire(t, db, w)
	_, err := s.Beat(t.Context(), w, time.Hour, false)
	require.NoError(t, err)
	got, err := s.Rescue(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, got.Retried)
	require.Equal(t, map[string]int{"running": 1}, count(t, db))
}

func TestJobsOfAWorkerWithoutARowComeBack(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	w := claimAll(t, s, db, tree.New(job{}), tree.New(job{}))
	require.NoError(t, s.Unregister(t.Context(), w), "which leaves a worker that holds jobs")
	_, err := db.Pool.Exec(t.Context(), `DELETE FROM coppice.workers`)
	require.NoError(t, err)
	got, err := s.Rescue(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 2, got.Retried)
	require.Equal(t, []string{"default"}, got.Woken)
}

func TestTheScheduleRescues(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	expire(t, db, claimAll(t, s, db, tree.New(job{})))
	r, err := reaper.New(s, reaper.Config{Rescue: "@every 1s"})
	require.NoError(t, err)
	require.NoError(t, r.Start())
	require.ErrorIs(t, r.Start(), reaper.ErrStarted)
	require.Eventually(t, func() bool { return count(t, db)["ready"] == 1 }, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, r.Stop(context.Background()))
}

func TestASpecThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	_, err := reaper.New(s, reaper.Config{Upkeep: "every minute"})
	require.ErrorContains(t, err, "Upkeep")
}

func count(t *testing.T, db *testdb.DB) map[string]int {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), `SELECT state, count(*) FROM (SELECT state FROM coppice.jobs UNION ALL SELECT state FROM coppice.dead_jobs) a GROUP BY 1`)
	require.NoError(t, err)
	defer rows.Close()
	out := map[string]int{}
	for rows.Next() {
		var state string
		var n int
		require.NoError(t, rows.Scan(&state, &n))
		out[state] = n
	}
	require.NoError(t, rows.Err())
	return out
}
