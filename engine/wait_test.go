package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func TestWaitReturnsAResultFromAnotherProcessBeforeAndAfterTheEnd(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	goOn := make(chan struct{})
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		<-goOn
		return job.Args.N, nil
	})
	rounds := 0
	k.onRoll(func(context.Context, *engine.Job[roll], *engine.Children) (any, error) {
		if rounds++; rounds == 1 {
			return nil, engine.FanOut(tree.New(task{8}))
		}
		return "rolled up", nil
	})
	k.work(engine.WorkerConfig{})
	r := k.insert(tree.New(roll{}).Add(tree.New(task{7})))
	c := k.remote()
	type got struct {
		n   int
		err error
	}
	child := make(chan got, 1)
	go func() {
		n, err := engine.Wait[int](t.Context(), c, r.IDs[1])
		child <- got{n, err}
	}()
	k.eventually(func() bool { return one[bool](k, `SELECT awaited FROM coppice.jobs WHERE id = $1`, int64(r.IDs[1])) }, "it does not wait")
	close(goOn)
	require.Equal(t, got{7, nil}, receive(t, child))
	for range 2 {
		text, err := engine.Wait[string](t.Context(), c, r.ID)
		require.NoError(t, err)
		require.Equal(t, "rolled up", text)
	}
	require.Equal(t, 2, rounds)
	_, err := engine.Wait[int](t.Context(), c, r.ID)
	require.ErrorContains(t, err, "decode the result of job")
}

func TestWaitTellsHowElseAJobEnded(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(ctx context.Context, job *engine.Job[task]) (any, error) { return endAs(ctx, job.Args.N) },
		engine.Guard(func(_ context.Context, job *engine.Job[task]) (string, error) {
			if job.Args.N == 100 {
				return "not needed", nil
			}
			return "", nil
		}))
	k.work(engine.WorkerConfig{})
	wait := func(n *tree.Node) error {
		t.Helper()
		_, err := engine.Wait[engine.None](t.Context(), k.Client, k.insert(n).ID)
		return err
	}
	var dead *engine.DeadError
	require.ErrorAs(t, wait(tree.New(task{endsFatally})), &dead)
	require.Equal(t, tree.ReasonFatal, dead.Reason)
	require.Equal(t, "no such file", dead.Text)
	var cancelled *engine.CancelledError
	require.ErrorAs(t, wait(tree.New(task{endsCancelling})), &cancelled)
	require.Equal(t, "not needed", cancelled.Why)
	var skipped *engine.SkippedError
	require.ErrorAs(t, wait(tree.New(task{100})), &skipped)
	require.Equal(t, "not needed", skipped.Why)
	require.ErrorIs(t, wait(tree.New(task{endsWell}, tree.KeepFor(0))), engine.ErrNotKept)
	_, err := engine.Wait[int](t.Context(), k.Client, 1_000_000)
	require.ErrorIs(t, err, engine.ErrNotKept)

	held := k.insert(tree.New(task{}, tree.Queue("nobody"))).ID
	errs := make(chan error, 1)
	go func() {
		_, err := engine.Wait[int](t.Context(), k.remote(), held)
		errs <- err
	}()
	k.eventually(func() bool { return one[bool](k, `SELECT awaited FROM coppice.jobs WHERE id = $1`, int64(held)) }, "it does not wait")
	_, err = k.Cancel(t.Context(), held, store.ScopeJob, me())
	require.NoError(t, err)
	require.ErrorAs(t, receive(t, errs), &cancelled)
	require.Equal(t, engine.CancelledError{ID: held, Actor: "me", Why: "the input was wrong"}, *cancelled)
}

func TestAThousandWaitOnOneConnectionAndLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const n = 1_000
	nodes := make([]*tree.Node, n)
	for i := range nodes {
		nodes[i] = tree.New(task{i})
	}
	r, err := k.InsertMany(t.Context(), nodes...)
	require.NoError(t, err)
	c := k.remote()
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	wrong := make(chan error, 2*n)
	for i := range r {
		waiting.Go(func() {
			got, err := engine.Wait[int](t.Context(), c, r[i].ID)
			if err != nil || got != i {
				wrong <- errors.Join(err, errors.New("another's result"))
			}
		})
		waiting.Go(func() { // and one who does not wait for it
			if _, err := engine.Wait[int](ctx, c, r[i].ID); !errors.Is(err, context.Canceled) {
				wrong <- errors.Join(err, errors.New("it was to be cancelled"))
			}
		})
	}
	const listeners = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%coppice_ended%'`
	k.eventually(func() bool {
		return one[int](k, `SELECT count(*) FROM coppice.jobs WHERE awaited`) == n && one[int](k, listeners) == 1
	}, "they do not wait by one connection")
	cancel()
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) { return job.Args.N, nil })
	k.work(engine.WorkerConfig{})
	waiting.Wait()
	close(wrong)
	for err := range wrong {
		t.Error(err)
	}
	k.eventually(func() bool { return one[int](k, listeners) == 0 }, "somebody listens still")
}

func TestWaitNeedsNoHints(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	goOn := make(chan struct{})
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) {
		<-goOn
		return 1, nil
	})
	k.work(engine.WorkerConfig{})
	id := k.insert(tree.New(task{})).ID
	done := make(chan error, 1)
	go func() {
		_, err := engine.Wait[int](t.Context(), k.remote(), id)
		done <- err
	}()
	k.eventually(func() bool { return one[bool](k, `SELECT awaited FROM coppice.jobs WHERE id = $1`, int64(id)) }, "it does not wait")
	k.exec(`UPDATE coppice.jobs SET awaited = false WHERE id = $1`, int64(id)) // nobody will tell
	begun := time.Now()
	close(goOn)
	require.NoError(t, receive(t, done))
	t.Log("found after", time.Since(begun))
}

func TestOneLockedJobDoesNotHoldUpThoseWhoWaitForOthers(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) { return job.Args.N, nil })
	k.work(engine.WorkerConfig{})
	locked, ended := k.insert(tree.New(task{}, tree.Queue("nobody"))).ID, k.insert(tree.New(task{7})).ID
	k.await(ended, tree.Completed)
	tx, err := k.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), `SELECT FROM coppice.jobs WHERE id = $1 FOR UPDATE`, int64(locked))
	require.NoError(t, err)
	soon, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	_, err = k.Store().Await(soon, []tree.ID{locked})
	require.NoError(t, err, "it waits for the lock")
	require.False(t, one[bool](k, `SELECT awaited FROM coppice.jobs WHERE id = $1`, int64(locked)))
	c := k.remote()
	errs := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := engine.Wait[int](ctx, c, locked)
		errs <- err
	}()
	n, err := engine.Wait[int](soon, c, ended)
	require.NoError(t, err)
	require.Equal(t, 7, n)
	require.NoError(t, tx.Rollback(t.Context()))
	k.eventually(func() bool { return one[bool](k, `SELECT awaited FROM coppice.jobs WHERE id = $1`, int64(locked)) }, "it is not asked for again")
	cancel()
	require.ErrorIs(t, receive(t, errs), context.Canceled)
}
