package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// idle makes a worker and does not start it.
func (k *kit) idle() *engine.Worker {
	k.t.Helper()
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil })
	w, err := engine.NewWorker(k.Client, k.reg, engine.WorkerConfig{})
	require.NoError(k.t, err)
	return w
}

func TestAWorkerStartsOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.idle()
	require.Zero(t, w.ID())
	require.NoError(t, w.Start(t.Context()))
	require.NotZero(t, w.ID())
	require.ErrorIs(t, w.Start(t.Context()), engine.ErrStarted)
	require.NoError(t, w.Stop(t.Context()))
	require.ErrorIs(t, w.Start(t.Context()), engine.ErrStarted)
	k.isQuiet()
}

func TestStopBeforeStartMeansNever(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.idle()
	require.NoError(t, w.Stop(t.Context()))
	receive(t, w.Done())
	require.NoError(t, w.Stop(t.Context()))
	require.ErrorIs(t, w.Start(t.Context()), engine.ErrStarted)
	k.isQuiet()
}

func TestStopMayBeCalledAgainAndByMany(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.idle()
	require.NoError(t, w.Start(t.Context()))
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() { errs <- w.Stop(context.Background()) }()
	}
	for range cap(errs) {
		require.NoError(t, receive(t, errs))
	}
	require.NoError(t, w.Stop(t.Context()))
	receive(t, w.Done())
	k.isQuiet()
}

func TestRunWorksUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.idle()
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	k.await(k.insert(tree.New(task{})).ID, tree.Completed)
	cancel()
	require.NoError(t, receive(t, ran))
	k.isQuiet()
}

func TestRunWithAnEndedContextDoesNotStart(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.idle()
	id := k.insert(tree.New(task{})).ID
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.Run(ctx), context.Canceled)
	require.Zero(t, k.await(id, tree.Ready).ClaimSeq)
	k.isQuiet()
	// A start that failed may be made again.
	require.NoError(t, w.Start(t.Context()))
	k.await(id, tree.Completed)
	require.NoError(t, w.Stop(t.Context()))
}

func TestAWorkerIsListedForAsLongAsItLives(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil }, engine.Alias("older"))
	k.onRoll(func(context.Context, *engine.Job[roll], *engine.Children) (any, error) { return nil, nil })
	w := k.begin(engine.WorkerConfig{Name: "box\x00 7", Queues: map[string]engine.QueueConfig{"b": {}, "a": {}}, Lease: time.Minute})
	require.Equal(t, "box\u2400 7", one[string](k, `SELECT name FROM coppice.workers WHERE id = $1`, int64(w.ID())))
	require.Equal(t, []string{"a", "b"}, one[[]string](k, `SELECT queues FROM coppice.workers`))
	require.Equal(t, []string{"older", "roll", "task"}, one[[]string](k, `SELECT kinds FROM coppice.workers`))
	require.Equal(t, 2, one[int](k, `SELECT count(*) FROM coppice.queues WHERE name IN ('a', 'b')`))
	require.NoError(t, w.Stop(t.Context()))
	k.isQuiet()
}
