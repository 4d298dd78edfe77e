package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// TestAnOutcomeThatTheDatabaseRefusesHoldsUpNoOther damages the tables by hand, so that one outcome of many that end
// at once cannot be written.
func TestAnOutcomeThatTheDatabaseRefusesHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	goOn := make(chan struct{})
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) {
		<-goOn
		return 1, nil
	})
	k.onRoll(func(_ context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		return kids.Completed, nil
	})
	w := k.begin(engine.WorkerConfig{})
	root := tree.New(roll{})
	for range 50 {
		root.Add(tree.New(task{}))
	}
	r := k.insert(root)
	k.eventually(func() bool {
		return one[int](k, `SELECT count(*) FROM coppice.jobs WHERE state = 'running'`) == 50
	}, "the children do not run")
	damaged := r.IDs[20]
	k.exec(`INSERT INTO coppice.results (parent_id, child_id, round, kind, value) VALUES ($1, $2, 1, 'task', '0')`, int64(r.ID), int64(damaged))
	close(goOn)
	k.eventually(func() bool {
		return one[int](k, `SELECT pending FROM coppice.jobs WHERE id = $1`, int64(r.ID)) == 1
	}, "the others are not written")
	require.Equal(t, tree.Running, k.state(damaged))
	report, err := k.Store().Check(t.Context(), store.CheckOptions{})
	require.NoError(t, err)
	require.Len(t, report.Findings, 1)
	require.Equal(t, store.EarlyResult, report.Findings[0].Invariant)
	require.Equal(t, damaged, report.Findings[0].Rows[0].Job, "the check names the job")

	// The worker can stop, and once the damage is mended the job is run again.
	require.ErrorIs(t, w.Stop(t.Context()), engine.ErrUnrecorded)
	k.exec(`DELETE FROM coppice.results WHERE child_id = $1`, int64(damaged))
	k.exec(`UPDATE coppice.workers SET expires_at = now() - interval '1 second'`)
	_, err = k.Store().Rescue(t.Context(), 10)
	require.NoError(t, err)
	k.work(engine.WorkerConfig{})
	require.Equal(t, "50", string(k.await(r.ID, tree.Completed).Result))
}

// TestATimeoutOfStatementsMakesBatchesSmaller lets every row of a batch take so long that a large batch is cut off.
func TestATimeoutOfStatementsMakesBatchesSmaller(t *testing.T) {
	t.Parallel()
	e := environment{setUp: `ALTER DATABASE {database} SET statement_timeout = '150ms'`, shows: "statement_timeout = 150ms"}
	k := newKitIn(t, e)
	k.exec(`CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_sleep(0.002);
		RETURN new;
	END $$`)
	k.exec(`CREATE TRIGGER dawdle BEFORE UPDATE ON coppice.jobs FOR EACH ROW EXECUTE FUNCTION dawdle()`)
	k.exec(`CREATE TRIGGER dawdle AFTER INSERT ON coppice.history FOR EACH ROW EXECUTE FUNCTION dawdle()`)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil })
	nodes := make([]*tree.Node, 300)
	for i := range nodes {
		nodes[i] = tree.New(task{i})
	}
	_, err := k.InsertMany(t.Context(), nodes...)
	require.NoError(t, err)
	k.work(engine.WorkerConfig{Queues: slots(300)})
	k.eventually(func() bool {
		return one[int](k, `SELECT count(*) FROM coppice.history WHERE attempt = 1`) == len(nodes)
	}, "the jobs are not done")
}

func TestAWorkerWhoseRowIsGoneClaimsNothingUntilItHasRegisteredAnew(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil })
	w := k.work(engine.WorkerConfig{Lease: time.Hour}) // no beat comes by itself
	first := w.ID()
	k.exec(`DELETE FROM coppice.workers`)
	for n := range 20 {
		row := k.await(k.insert(tree.New(task{n})).ID, tree.Completed)
		require.Equal(t, 1, row.Attempt)
		require.Equal(t, one[tree.WorkerID](k, `SELECT id FROM coppice.workers`), row.WorkerID)
		require.NotEqual(t, first, row.WorkerID)
	}
}

// TestAClaimWhoseAnswerWasLostIsGivenBackWhileOtherQueuesAreBusy claims by hand in the worker's name, as a claim does
// whose answer never came, while another queue of the worker hardly ever has no claim in flight.
func TestAClaimWhoseAnswerWasLostIsGivenBackWhileOtherQueuesAreBusy(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.exec(`CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_sleep(0.3);
		RETURN new;
	END $$`)
	k.exec(`CREATE TRIGGER dawdle BEFORE UPDATE ON coppice.jobs FOR EACH ROW
		WHEN (new.queue = 'busy' AND new.state = 'running') EXECUTE FUNCTION dawdle()`)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) {
		<-time.After(15 * time.Millisecond) // too long for the worker to claim ahead
		return nil, nil
	})
	nodes := make([]*tree.Node, 100)
	for i := range nodes {
		nodes[i] = tree.New(task{i}, tree.Queue("busy"))
	}
	_, err := k.InsertMany(t.Context(), nodes...)
	require.NoError(t, err)
	lost := k.insert(tree.New(roll{})).ID // which the worker has no handler for
	w := k.work(engine.WorkerConfig{Lease: time.Second, Queues: map[string]engine.QueueConfig{"busy": {MaxRunning: 1}, tree.DefaultQueue: {}}})
	got, err := k.Store().Claim(t.Context(), store.ClaimRequest{WorkerID: w.ID(), Queue: tree.DefaultQueue, Limit: 1, WorkKinds: []string{"roll"}})
	require.NoError(t, err)
	require.Len(t, got.Jobs, 1)
	require.Equal(t, 1, k.await(lost, tree.Running).Attempt)
	require.Zero(t, k.await(lost, tree.Ready).Attempt, "at no cost")
	require.Positive(t, one[int](k, `SELECT count(*) FROM coppice.jobs WHERE queue = 'busy'`), "the other queue was busy all the time")
}

// TestJobsClaimedAheadGoBackWhenTheSlotsAreStuck has jobs so short that the worker claims ahead of its slot, and then one
// that does not end.
func TestJobsClaimedAheadGoBackWhenTheSlotsAreStuck(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	stuck, goOn := make(chan struct{}), make(chan struct{})
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		if job.Args.N == 300 {
			close(stuck)
			<-goOn
		}
		return nil, nil
	})
	nodes := make([]*tree.Node, 600)
	for i := range nodes {
		nodes[i] = tree.New(task{i})
	}
	_, err := k.InsertMany(t.Context(), nodes...)
	require.NoError(t, err)
	k.work(engine.WorkerConfig{Queues: slots(1)})
	receive(t, stuck)
	k.eventually(func() bool {
		return one[int](k, `SELECT count(*) FROM coppice.jobs WHERE state = 'running'`) == 1
	}, "the worker keeps what it cannot run")
	k.work(engine.WorkerConfig{Queues: slots(1)}) // another takes it over
	k.eventually(func() bool { return one[int](k, `SELECT count(*) FROM coppice.jobs`) == 1 }, "the jobs are not done")
	close(goOn)
	k.eventually(func() bool {
		return one[int](k, `SELECT count(*) FROM coppice.history WHERE attempt = 1`) == len(nodes)
	}, "every job ran once")
}
