package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/testcheck"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func TestCheckFindsNothingInAGoodForest(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	testcheck.AssertInvariants(t, f.Store)
	report, err := f.Check(t.Context(), store.CheckOptions{})
	require.NoError(t, err)
	require.True(t, report.OK(), report.String())
	require.Equal(t, 16, report.Checked)
	require.False(t, report.At.IsZero())
}

// finds damages a good forest and expects exactly one finding, in one row.
func finds(t *testing.T, damage string, invariant store.Invariant, want store.Offender) {
	t.Helper()
	t.Parallel()
	f := newForest(t)
	f.exec(damage)
	report, err := f.Check(t.Context(), store.CheckOptions{History: true})
	require.NoError(t, err)
	require.Len(t, report.Findings, 1, report.String())
	got := report.Findings[0]
	require.Equal(t, invariant, got.Invariant)
	require.NotEmpty(t, got.Rule)
	require.EqualValues(t, 1, got.Total, report.String())
	require.Equal(t, []store.Offender{want}, got.Rows)
}

func TestCheckFindsAPendingThatIsNotTheLiveChildren(t *testing.T) {
	finds(t, `UPDATE {s}.jobs SET pending = 3 WHERE id = 1`,
		store.PendingCount, store.Offender{Job: 1, RootID: 1, Detail: "pending is 3, live children are 2"})
}

func TestCheckFindsAPendingWithoutAnyChild(t *testing.T) {
	finds(t, `UPDATE {s}.dead_jobs SET pending = 1 WHERE id = 84`,
		store.PendingCount, store.Offender{Job: 84, RootID: 84, Detail: "pending is 1, live children are 0"})
}

func TestCheckFindsADeadThatIsNotTheDeadChildren(t *testing.T) {
	finds(t, `UPDATE {s}.dead_jobs SET dead = 0 WHERE id = 40`,
		store.DeadCount, store.Offender{Job: 40, RootID: 40, Detail: "dead is 0, dead children are 1"})
}

func TestCheckFindsAFinalizerThatIsReadyTooEarly(t *testing.T) {
	finds(t, `UPDATE {s}.jobs SET state = 'ready' WHERE id = 10`, store.ClosedGate, store.Offender{
		Job: 10, RootID: 10,
		Detail: "it is ready in round 1, with pending 1 and 0 of 0 settled children dead; on_dead is wait, sealed",
	})
}

func TestCheckFindsAFinalizerThatRunsAlthoughAChildIsDead(t *testing.T) {
	finds(t, `UPDATE {s}.jobs SET tolerate_count = 0 WHERE id = 22`, store.ClosedGate, store.Offender{
		Job: 22, RootID: 22,
		Detail: "it is running in round 1, with pending 0 and 1 of 1 settled children dead; on_dead is wait, sealed",
	})
}

func TestCheckFindsAFinalizerThatBacksOffAlthoughTooManyChildrenAreDead(t *testing.T) {
	finds(t, `UPDATE {s}.jobs SET tolerate_ratio = 0.49 WHERE id = 24`, store.ClosedGate, store.Offender{
		Job: 24, RootID: 24,
		Detail: "it is scheduled in round 1, with pending 0 and 1 of 2 settled children dead; on_dead is wait, sealed",
	})
}

func TestCheckFindsAParentThatIsReadyWithoutASeal(t *testing.T) {
	finds(t, `UPDATE {s}.jobs SET state = 'ready' WHERE id = 50`, store.ClosedGate, store.Offender{
		Job: 50, RootID: 50,
		Detail: "it is ready in round 1, with pending 0 and 0 of 0 settled children dead; on_dead is wait, not sealed",
	})
}

func TestCheckFindsAStuckFinalizer(t *testing.T) {
	finds(t, `UPDATE {s}.jobs SET sealed = true WHERE id = 50`, store.StuckFinalizer, store.Offender{
		Job: 50, RootID: 50,
		Detail: "it is waiting in round 1, with pending 0 and 0 of 0 settled children dead; on_dead is wait, sealed",
	})
}

func TestCheckFindsAFinalizerThatIsStuckAlthoughItsPolicyProceeds(t *testing.T) {
	finds(t, `UPDATE {s}.jobs SET state = 'waiting' WHERE id = 20`, store.StuckFinalizer, store.Offender{
		Job: 20, RootID: 20,
		Detail: "it is waiting in round 1, with pending 0 and 1 of 2 settled children dead; on_dead is proceed, sealed",
	})
}

func TestCheckFindsAChildWithoutItsParent(t *testing.T) {
	finds(t, `DELETE FROM {s}.jobs WHERE id = 60`,
		store.MissingParent, store.Offender{Job: 61, RootID: 60, Detail: "parent 60 is neither live nor dead"})
}

func TestCheckFindsResultsWithoutTheirParent(t *testing.T) {
	finds(t, `INSERT INTO {s}.results VALUES (70, 72, 1, 'k', NULL, '1'), (70, 73, 1, 'k', NULL, '1')`,
		store.StrayResult, store.Offender{Job: 70, Detail: "2 results are kept for it, but it is neither live nor dead"})
}

func TestCheckFindsAResultOfAJobThatRuns(t *testing.T) {
	finds(t, `INSERT INTO {s}.results VALUES (1, 3, 1, 'k', NULL, '1')`,
		store.EarlyResult, store.Offender{Job: 3, RootID: 1, Detail: "parent 1 has its result, but it is running"})
}

func TestCheckFindsAJobThatIsLiveAndDead(t *testing.T) {
	finds(t, `INSERT INTO {s}.dead_jobs (id, root_id, state, kind, queue, reason, args) VALUES (80, 80, 'dead', 'k', 'q', 'lost', '1')`,
		store.TwoPlaces, store.Offender{Job: 80, RootID: 80, Detail: "it is live and in the dead-letter queue"})
}

func TestCheckFindsALiveJobInTheHistory(t *testing.T) {
	finds(t, `INSERT INTO {s}.history (id, root_id, state, kind, queue, args) VALUES (80, 80, 'completed', 'k', 'q', '1')`,
		store.TwoPlaces, store.Offender{Job: 80, RootID: 80, Detail: "it is ready and, as completed, in the history"})
}

func TestCheckFindsADeadJobInTheHistory(t *testing.T) {
	finds(t, `INSERT INTO {s}.history (id, root_id, state, kind, queue, args) VALUES (84, 84, 'cancelled', 'k', 'q', '1')`,
		store.TwoPlaces, store.Offender{Job: 84, RootID: 84, Detail: "it is dead and, as cancelled, in the history"})
}

func TestCheckFindsAJobThatCompletedTwice(t *testing.T) {
	finds(t, `INSERT INTO {s}.history (id, root_id, state, kind, queue, args) VALUES (83, 83, 'completed', 'k', 'q', '1')`,
		store.HistoryTwice, store.Offender{Job: 83, Detail: "it is there 2 times"})
}

func TestCheckFindsARunningJobWithoutAWorker(t *testing.T) {
	finds(t, `ALTER TABLE {s}.jobs DROP CONSTRAINT jobs_worker; UPDATE {s}.jobs SET worker_id = NULL WHERE id = 3`,
		store.RunningWorker, store.Offender{Job: 3, RootID: 1, Detail: "it is running and names no worker"})
}

func TestCheckFindsAReadyJobWithAWorker(t *testing.T) {
	finds(t, `ALTER TABLE {s}.jobs DROP CONSTRAINT jobs_worker; UPDATE {s}.jobs SET worker_id = 7 WHERE id = 2`,
		store.RunningWorker, store.Offender{Job: 2, RootID: 1, Detail: "it is ready and names worker 7"})
}

func TestCheckFindsAWorkerWithoutARow(t *testing.T) {
	finds(t, `UPDATE {s}.jobs SET worker_id = 8 WHERE id = 3`,
		store.MissingWorker, store.Offender{Job: 3, RootID: 1, Detail: "worker 8 has no row"})
}

func TestCheckFindsADedupKeyOfADeadLetter(t *testing.T) {
	finds(t, `ALTER TABLE {s}.dead_jobs DROP CONSTRAINT dead_jobs_state; UPDATE {s}.dead_jobs SET dedup_key = 'd' WHERE id = 84`,
		store.DeadDedupKey, store.Offender{Job: 84, RootID: 84, Detail: "it holds the dedup key 'd'"})
}

func TestCheckFindsARootThatNamesAnotherTree(t *testing.T) {
	finds(t, `UPDATE {s}.jobs SET root_id = 10 WHERE id = 80`,
		store.Lineage, store.Offender{Job: 80, RootID: 10, Detail: "it is a root, but names tree 10"})
}

func TestCheckFindsAChildOfAnotherTreeThanItsParent(t *testing.T) {
	finds(t, `UPDATE {s}.jobs SET root_id = 1 WHERE id = 12`,
		store.Lineage, store.Offender{Job: 12, RootID: 1, Detail: "it is of tree 1, its parent 11 of tree 10"})
}

func TestCheckFindsAChildThatIsOlderThanItsParent(t *testing.T) {
	finds(t, `UPDATE {s}.jobs SET id = 9 WHERE id = 12`,
		store.Lineage, store.Offender{Job: 9, RootID: 10, Detail: "its parent 11 has no lower id"})
}

func TestCheckFindsANegativeCounter(t *testing.T) {
	finds(t, `UPDATE {s}.jobs SET cancelled = -1 WHERE id = 10`, store.NegativeCount, store.Offender{
		Job: 10, RootID: 10,
		Detail: "pending 1, completed 0, dead 0, cancelled -1, removed 0, attempt 0, lost 0, snoozes 0, round 1, claim_seq 0",
	})
}

func TestCheckFindsALeafThatWaits(t *testing.T) {
	finds(t, `UPDATE {s}.jobs SET state = 'waiting' WHERE id = 80`,
		store.WaitingLeaf, store.Offender{Job: 80, RootID: 80, Detail: "it waits in round 0, from which nothing wakes it"})
}

func TestCheckFindsAReadyJobThatCloses(t *testing.T) {
	finds(t, `UPDATE {s}.jobs SET closing = 'fail_fast' WHERE id = 80`,
		store.ClosingState, store.Offender{Job: 80, RootID: 80, Detail: "it is ready and closing as fail_fast"})
}

func TestCheckNamesAFewRowsAndCountsThemAll(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	f.exec(`UPDATE {s}.jobs SET lost = -1`)
	report, err := f.Check(t.Context(), store.CheckOptions{Rows: 2})
	require.NoError(t, err)
	require.Len(t, report.Findings, 1)
	require.Equal(t, store.NegativeCount, report.Findings[0].Invariant)
	require.EqualValues(t, 17, report.Findings[0].Total)
	require.Equal(t, []tree.ID{1, 2}, []tree.ID{report.Findings[0].Rows[0].Job, report.Findings[0].Rows[1].Job})
	require.Contains(t, report.String(), "and 15 more")
}

func TestCheckSaysThatItCouldNotCheck(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`DROP TABLE {s}.results`)
	_, err := f.Check(t.Context(), store.CheckOptions{})
	require.ErrorContains(t, err, "check invariants: stray_result")
}

// recorder is a test that only notes that it failed.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Errorf(format string, args ...any) { r.failure = fmt.Sprintf(format, args...) }

func TestAssertInvariantsFailsTheTestWithTheRows(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	f.exec(`UPDATE {s}.jobs SET pending = 3 WHERE id = 1`)
	r := &recorder{TB: t}
	testcheck.AssertInvariants(r, f.Store)
	require.Contains(t, r.failure, "job 1 of tree 1: pending is 3, live children are 2")
}
