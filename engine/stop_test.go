package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/reaper"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func me() store.By { return store.By{Actor: "me", Reason: "the input was wrong"} }

// remote is a client that shares nothing with the kit's worker but the database: a cancellation from another process.
func (k *kit) remote() *engine.Client {
	k.t.Helper()
	c, err := engine.NewClient(k.db.Pool, engine.ClientConfig{Schema: k.db.Schema})
	require.NoError(k.t, err)
	return c
}

func TestACancelledJobsHandlerSeesItsContextEndWithAndWithoutListen(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]engine.WorkerConfig{
		"told by LISTEN":     {PollInterval: time.Hour, Lease: time.Hour},
		"seen with the beat": {PollInterval: time.Hour, Lease: time.Second, PollOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			started, causes := make(chan struct{}), make(chan error, 1)
			k.onTask(func(ctx context.Context, _ *engine.Job[task]) (any, error) {
				close(started)
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return nil, ctx.Err()
			})
			k.onRoll(func(context.Context, *engine.Job[roll], *engine.Children) (any, error) {
				t.Error("a cancelled finalizer ran")
				return nil, nil
			})
			k.work(config)
			r := k.insert(tree.New(roll{}).Add(tree.New(task{})))
			receive(t, started)
			out, err := k.remote().Cancel(t.Context(), r.ID, store.ScopeTree, me())
			require.NoError(t, err)
			require.Equal(t, 1, out.Stopping)
			cause := receive(t, causes)
			require.ErrorIs(t, cause, engine.ErrStopRequested)
			var stop *engine.StopError
			require.ErrorAs(t, cause, &stop)
			require.Equal(t, &engine.StopError{Closing: "cancelled", Actor: "me", Why: "the input was wrong"}, stop)
			row := k.await(r.IDs[1], tree.Cancelled)
			require.Equal(t, "me", row.Actor)
			require.Equal(t, "the input was wrong", row.Error)
			k.await(r.ID, tree.Cancelled)
			require.Empty(t, k.failures(r.IDs[1]))
		})
	}
}

func TestAHandlerThatCompletesAllTheSameKeepsItsResult(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started := make(chan struct{}, 2)
	var fail atomic.Bool
	k.onTask(func(ctx context.Context, job *engine.Job[task]) (any, error) {
		if job.Args.N == 1 {
			for !fail.Load() {
				<-time.After(time.Millisecond)
			}
			return nil, engine.Fatal(errors.New("no such file"))
		}
		started <- struct{}{}
		<-ctx.Done()
		return "all the same", nil
	})
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	r := k.insert(tree.New(roll{}, tree.OnDead(tree.Fail)).Add(tree.New(task{1}), tree.New(task{2}), tree.New(task{3}, tree.Delay(time.Hour))))
	receive(t, started)
	fail.Store(true)
	k.await(r.IDs[2], tree.Completed)
	k.await(r.ID, tree.Dead)
	row := k.await(r.IDs[3], tree.Dead)
	require.Equal(t, tree.ReasonFailFast, row.Reason)
	require.Equal(t, `"all the same"`, one[string](k, `SELECT value::text FROM coppice.results WHERE parent_id = $1`, int64(r.ID)))
}

func TestAFailureOnTheWayToAStopIsKept(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started := make(chan struct{}, 1)
	k.onTask(func(ctx context.Context, job *engine.Job[task]) (any, error) {
		if job.Args.N == 1 {
			<-started
			return nil, engine.Fatal(errors.New("no such file"))
		}
		started <- struct{}{}
		<-ctx.Done()
		panic("the cleanup failed")
	})
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	r := k.insert(tree.New(roll{}, tree.OnDead(tree.Fail)).Add(tree.New(task{1}), tree.New(task{2})))
	row := k.await(r.IDs[2], tree.Dead)
	require.Equal(t, tree.ReasonFailFast, row.Reason)
	k.await(r.ID, tree.Dead)
	failures := k.failures(r.IDs[2])
	require.Len(t, failures, 1)
	require.Equal(t, tree.OutcomePanic, failures[0].Outcome)
	require.Contains(t, failures[0].Error, "the cleanup failed")
}

func TestWhatWasClaimedAndNotStartedNeverRunsOnceItIsCancelledOrHeld(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const long = 300
	var ran atomic.Int64
	started := make(chan struct{})
	k.onTask(func(ctx context.Context, job *engine.Job[task]) (any, error) {
		switch {
		case job.Args.N == long:
			close(started)
			<-ctx.Done()
		case job.Args.N > long:
			ran.Add(1)
		}
		return nil, ctx.Err()
	})
	w := k.work(engine.WorkerConfig{
		PollInterval: time.Hour, Lease: time.Hour, Queues: map[string]engine.QueueConfig{tree.DefaultQueue: {MaxRunning: 1}},
	})
	// Short jobs come first, so that the worker fetches ahead.
	nodes := make([]*tree.Node, long+4)
	for i := range nodes {
		nodes[i] = tree.New(task{i})
	}
	r, err := k.InsertMany(t.Context(), nodes...)
	require.NoError(t, err)
	receive(t, started)
	// It gives back what it fetched ahead when no slot has begun a job for a second, which a slow machine may not be in time for.
	t.Log("claimed ahead:", one[int](k, `SELECT count(*) FROM coppice.jobs WHERE worker_id = $1 AND id > $2`, int64(w.ID()), int64(r[long].ID)))
	_, err = k.remote().Hold(t.Context(), r[long+1].ID, store.ScopeJob, me())
	require.NoError(t, err)
	for _, n := range []int{long + 2, long + 3, long} { // the one that runs comes last: when it stops, the others have been heard of
		_, err = k.remote().Cancel(t.Context(), r[n].ID, store.ScopeJob, me())
		require.NoError(t, err)
	}
	for _, n := range []int{long, long + 2, long + 3} {
		k.await(r[n].ID, tree.Cancelled)
	}
	k.eventually(func() bool {
		return one[bool](k, `SELECT held AND state = 'ready' FROM coppice.jobs WHERE id = $1`, int64(r[long+1].ID))
	}, "the held job did not come back")
	require.Zero(t, one[int](k, `SELECT attempt FROM coppice.jobs WHERE id = $1`, int64(r[long+1].ID)), "at no cost")
	require.Zero(t, ran.Load())
}

func TestTheReaperClosesWhatIsPastItsDeadlineOrWasLeftHalfClosed(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started := make(chan struct{})
	k.onTask(func(ctx context.Context, _ *engine.Job[task]) (any, error) {
		close(started)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	k.work(engine.WorkerConfig{Queues: map[string]engine.QueueConfig{tree.DefaultQueue: {MaxRunning: 1}}})
	r := k.insert(tree.New(roll{}, tree.Deadline(time.Second)).Add(tree.New(task{1}), tree.New(task{2}), tree.New(roll{}).Add(tree.New(task{3}))))
	receive(t, started)
	rp, err := reaper.New(k.Store(), reaper.Config{})
	require.NoError(t, err)
	k.eventually(func() bool {
		require.NoError(t, rp.Pass(t.Context()))
		row, err := k.Store().Job(t.Context(), r.ID)
		return err == nil && row.State == tree.Cancelled
	}, "the tree was not cancelled at its deadline")
	for _, id := range r.IDs {
		require.Equal(t, "its deadline passed", k.await(id, tree.Cancelled).Error)
	}

	// A process marks a tree, and dies before it sweeps.
	half := k.insert(tree.New(roll{}).Add(tree.New(task{1}, tree.Delay(time.Hour)), tree.New(task{2}, tree.Queue("nobody"))))
	k.exec(`UPDATE coppice.jobs SET closing = 'cancelled', closing_by = 'them' WHERE id = $1`, int64(half.ID))
	require.NoError(t, rp.Pass(t.Context()))
	require.Equal(t, "them", k.await(half.ID, tree.Cancelled).Actor)
}
