package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// slots configures the default queue alone, with n slots.
func slots(n int) map[string]engine.QueueConfig {
	return map[string]engine.QueueConfig{tree.DefaultQueue: {MaxRunning: n}}
}

// begin makes and starts a worker that the test stops itself.
func (k *kit) begin(config engine.WorkerConfig) *engine.Worker {
	k.t.Helper()
	w, err := engine.NewWorker(k.Client, k.reg, config)
	require.NoError(k.t, err)
	require.NoError(k.t, w.Start(k.t.Context()))
	return w
}

// state reads the state that a job is in now.
func (k *kit) state(id tree.ID) tree.State {
	k.t.Helper()
	row, err := k.Store().Job(k.t.Context(), id)
	require.NoError(k.t, err)
	return row.State
}

// isQuiet asserts that nothing of any worker is left in the database or the pool.
func (k *kit) isQuiet() {
	k.t.Helper()
	require.Zero(k.t, one[int](k, `SELECT count(*) FROM coppice.workers`), "workers are registered")
	require.Zero(k.t, one[int](k, `SELECT count(*) FROM coppice.jobs WHERE state = 'running'`), "jobs are running")
	k.eventually(func() bool { return k.db.Pool.Stat().AcquiredConns() == 0 }, "connections are not returned")
}

func TestStopLetsHandlersFinishWithinTheGracePeriod(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started, goOn := make(chan struct{}, 2), make(chan struct{})
	k.onTask(func(ctx context.Context, _ *engine.Job[task]) (any, error) {
		started <- struct{}{}
		<-goOn
		return "done", ctx.Err()
	})
	w := k.begin(engine.WorkerConfig{Grace: time.Hour})
	id := k.insert(tree.New(task{})).ID
	receive(t, started)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop(context.Background()) }()
	late := k.insert(tree.New(task{1})).ID // claimed before Stop took hold, or not at all
	close(goOn)
	require.NoError(t, receive(t, stopped))
	require.Equal(t, `"done"`, string(k.await(id, tree.Completed).Result))
	require.Contains(t, []tree.State{tree.Ready, tree.Completed}, k.state(late))
	k.isQuiet()
}

func TestStopInterruptsHandlersAfterTheGracePeriodAtNoCost(t *testing.T) {
	t.Parallel()
	for name, grace := range map[string]time.Duration{"some": 20 * time.Millisecond, "none": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			started, causes := make(chan struct{}), make(chan error, 1)
			k.onTask(func(ctx context.Context, _ *engine.Job[task]) (any, error) {
				close(started)
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return nil, fmt.Errorf("interrupted: %w", ctx.Err())
			})
			w := k.begin(engine.WorkerConfig{Grace: grace})
			id := k.insert(tree.New(task{}, tree.MaxAttempts(1))).ID
			receive(t, started)
			require.NoError(t, w.Stop(t.Context()))
			require.ErrorIs(t, receive(t, causes), engine.ErrShutdown)
			row := k.await(id, tree.Ready)
			require.Zero(t, row.Attempt)
			require.Empty(t, k.failures(id))
			k.isQuiet()
		})
	}
}

func TestWhatAnInterruptedHandlerSaysCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result any
		err    error
		state  tree.State
	}{
		"success": {"in time", nil, tree.Completed},
		"fatal":   {nil, engine.Fatal(errBoom), tree.Dead},
		"cancel":  {nil, engine.Cancel(errBoom), tree.Cancelled},
		"snooze":  {nil, engine.Snooze(time.Hour), tree.Scheduled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			started := make(chan struct{})
			k.onTask(func(ctx context.Context, _ *engine.Job[task]) (any, error) {
				close(started)
				<-ctx.Done()
				return c.result, c.err
			})
			w := k.begin(engine.WorkerConfig{Grace: -1})
			id := k.insert(tree.New(task{})).ID
			receive(t, started)
			require.NoError(t, w.Stop(t.Context()))
			k.await(id, c.state)
		})
	}
}

func TestStopGivesBackWhatHasNotStarted(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const jobs = 500
	blocked, goOn := make(chan struct{}), make(chan struct{})
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		if job.Args.N == 100 { // by then the lane fetches ahead
			close(blocked)
			<-goOn
		}
		return nil, nil
	})
	for i := range jobs {
		k.insert(tree.New(task{i}, tree.MaxAttempts(1)))
	}
	w := k.begin(engine.WorkerConfig{Queues: slots(1), Grace: time.Hour})
	receive(t, blocked)
	k.eventually(func() bool {
		return one[int](k, `SELECT count(*) FROM coppice.jobs WHERE state = 'running'`) > 1
	}, "nothing is fetched ahead")
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop(context.Background()) }()
	k.eventually(func() bool {
		select {
		case goOn <- struct{}{}:
			return true
		default:
			return false
		}
	}, "the blocked handler")
	require.NoError(t, receive(t, stopped))
	done := one[int](k, `SELECT count(*) FROM coppice.history`)
	require.Less(t, done, jobs)
	require.Equal(t, jobs-done, one[int](k, `SELECT count(*) FROM coppice.jobs WHERE state = 'ready' AND attempt = 0`))
	k.isQuiet()
	rest := k.begin(engine.WorkerConfig{})
	k.eventually(func() bool { return one[int](k, `SELECT count(*) FROM coppice.history`) == jobs }, "all run in the end")
	require.NoError(t, rest.Stop(t.Context()))
}

func TestStopSaysWhichHandlersDoNotHeedTheirContext(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started, goOn := make(chan struct{}, 2), make(chan struct{})
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) {
		started <- struct{}{}
		<-goOn
		return "late", nil
	})
	w := k.begin(engine.WorkerConfig{Lease: time.Second})
	ids := []tree.ID{k.insert(tree.New(task{})).ID, k.insert(tree.New(task{})).ID}
	receive(t, started)
	receive(t, started)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := w.Stop(ended)
	require.ErrorIs(t, err, engine.ErrHandlersRunning)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, fmt.Sprintf("2 jobs, among them [%d %d]", ids[0], ids[1]))
	select {
	case <-w.Done():
		t.Fatal("it is not done")
	default:
	}
	before := one[time.Time](k, `SELECT beat_at FROM coppice.workers`)
	k.eventually(func() bool { return one[time.Time](k, `SELECT beat_at FROM coppice.workers`).After(before) },
		"the lease is not renewed while handlers run")
	require.True(t, one[bool](k, `SELECT stopping FROM coppice.workers`))
	close(goOn)
	receive(t, w.Done())
	require.NoError(t, w.Stop(ended), "it has stopped")
	for _, id := range ids {
		require.Equal(t, `"late"`, string(k.await(id, tree.Completed).Result), "the outcome counts")
	}
	k.isQuiet()
}

// TestADeployLoopBurnsNoAttempts starts and stops workers under load, at random moments of their work.
func TestADeployLoopBurnsNoAttempts(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const jobs, cycles = 3_000, 30
	k.onTask(func(ctx context.Context, job *engine.Job[task]) (any, error) {
		if job.Args.N%10 != 0 {
			return job.Args.N, nil
		}
		select { // heeds its context, as it should
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(job.Args.N%7) * time.Millisecond):
			return job.Args.N, nil
		}
	})
	k.onRoll(func(_ context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		return kids.Completed, nil
	})
	root := tree.New(roll{})
	for i := range jobs {
		root.Add(tree.New(task{i}, tree.MaxAttempts(1)))
	}
	id := k.insert(root).ID
	for i := range cycles {
		w := k.begin(engine.WorkerConfig{Queues: slots(1 + i%8), Grace: []time.Duration{-1, time.Millisecond, time.Second}[i%3]})
		before := one[int](k, `SELECT coalesce(sum(claim_seq), 0)::int FROM coppice.jobs`)
		if rand.IntN(4) > 0 {
			k.eventually(func() bool {
				return one[int](k, `SELECT coalesce(sum(claim_seq), 0)::int FROM coppice.jobs`) != before
			}, "nothing is claimed")
		}
		require.NoError(t, w.Stop(t.Context()))
		k.isQuiet()
		require.Zero(t, one[int](k, `SELECT count(*) FROM coppice.jobs WHERE attempt > 0`), "cycle %d", i)
	}
	require.Zero(t, one[int](k, `SELECT count(*) FROM coppice.job_errors`))
	w := k.begin(engine.WorkerConfig{})
	require.Equal(t, fmt.Sprint(jobs), string(k.await(id, tree.Completed).Result))
	require.NoError(t, w.Stop(t.Context()))
	require.Zero(t, one[int](k, `SELECT count(*) FROM coppice.dead_jobs`))
	require.Equal(t, 1, one[int](k, `SELECT max(attempt) FROM coppice.history`))
}

func TestAParentDoesNotRunForAnInterruptedChild(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started := make(chan struct{}, 2)
	k.onTask(func(ctx context.Context, job *engine.Job[task]) (any, error) {
		if started <- struct{}{}; len(started) == 2 {
			return nil, nil
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	k.onRoll(func(context.Context, *engine.Job[roll], *engine.Children) (any, error) { return nil, nil })
	w := k.begin(engine.WorkerConfig{Grace: -1})
	r := k.insert(tree.New(roll{}).Add(tree.New(task{})))
	k.eventually(func() bool { return len(started) == 1 }, "the child runs")
	require.NoError(t, w.Stop(t.Context()))
	require.Equal(t, 1, k.await(r.ID, tree.Waiting).Pending)
	again := k.begin(engine.WorkerConfig{})
	k.await(r.ID, tree.Completed)
	require.NoError(t, again.Stop(t.Context()))
}

func TestStopGivesUpOnADatabaseThatIsAwayForLongerThanTheLease(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started, goOn := make(chan struct{}), make(chan struct{})
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) {
		close(started)
		<-goOn
		return nil, nil
	})
	w := k.begin(engine.WorkerConfig{Lease: time.Second})
	id := k.insert(tree.New(task{})).ID
	receive(t, started)
	k.exec(`ALTER SCHEMA coppice RENAME TO away`)
	close(goOn)
	require.ErrorIs(t, w.Stop(t.Context()), engine.ErrUnrecorded)
	receive(t, w.Done())
	require.ErrorIs(t, w.Stop(t.Context()), engine.ErrUnrecorded, "it does not forget")
	k.exec(`ALTER SCHEMA away RENAME TO coppice`)
	row := k.await(id, tree.Running)
	require.Equal(t, row.WorkerID, one[tree.WorkerID](k, `SELECT id FROM coppice.workers WHERE expires_at < now()`),
		"it is left to whoever takes back the jobs of ended leases")
}
