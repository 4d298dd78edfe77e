package engine_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// tasks yields n tasks with keys, and then err if there is one.
func tasks(n int, err error) iter.Seq2[*tree.Node, error] {
	return func(yield func(*tree.Node, error) bool) {
		for i := range n {
			if !yield(tree.New(task{i}, tree.Key(fmt.Sprint(i))), nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func TestAStreamsChildrenRunWhileItGoesOn(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	ran := make(chan int, 10_000)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		ran <- job.Args.N
		return job.Args.N, nil
	})
	k.onRoll(func(ctx context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		sum := 0
		for kid, err := range engine.Results[int](ctx, kids) {
			if err != nil {
				return nil, err
			}
			sum += kid.Value
		}
		return sum, nil
	})
	k.work(engine.WorkerConfig{})
	const n = 3_000
	got, err := k.Stream(t.Context(), tree.New(roll{}), func(yield func(*tree.Node, error) bool) {
		for i := range n {
			if !yield(tree.New(task{i}), nil) {
				return
			}
			if i == n-100 {
				receive(t, ran) // an early child, while the last are still to come
			}
		}
	})
	require.NoError(t, err)
	require.Equal(t, n, got.Made)
	row := k.await(got.ID, tree.Completed)
	require.Equal(t, n, row.Completed)
	require.JSONEq(t, fmt.Sprint(n*(n-1)/2), string(row.Result))
}

func TestAStreamThatStopsIsContinuedWithoutDuplicates(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	var ran atomic.Int64
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { ran.Add(1); return nil, nil })
	k.onRoll(func(context.Context, *engine.Job[roll], *engine.Children) (any, error) { return nil, nil })
	k.work(engine.WorkerConfig{})
	out, err := k.Stream(t.Context(), tree.New(roll{}), tasks(500, errBoom))
	var stopped *engine.StreamError
	require.ErrorAs(t, err, &stopped)
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, out, stopped.Streamed)
	require.ErrorContains(t, err, "continue it with ContinueStream, or cancel the job")
	row, err := k.Store().Job(t.Context(), out.ID)
	require.NoError(t, err)
	require.False(t, row.Sealed)
	require.NotNil(t, row.SealBy)

	ctx, cancel := context.WithCancel(t.Context())
	_, err = k.ContinueStream(ctx, out.ID, func(yield func(*tree.Node, error) bool) {
		cancel()
		yield(tree.New(task{0}, tree.Key("0")), nil)
	})
	require.ErrorIs(t, err, context.Canceled)

	again, err := k.ContinueStream(t.Context(), out.ID, tasks(1_000, nil))
	require.NoError(t, err)
	require.Equal(t, out.Made, again.Found)
	require.Equal(t, 1_000, again.Made+again.Found)
	require.Equal(t, 1_000, k.await(out.ID, tree.Completed).Completed)
	require.Equal(t, int64(1_000), ran.Load())
	_, err = k.AddChildren(t.Context(), out.ID, tree.New(task{}))
	var closed *engine.NotOpenError
	require.ErrorAs(t, err, &closed)
	require.Equal(t, tree.Completed, closed.State)
}

func TestAStreamIsCancelledLikeAnyTree(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	n := 0
	_, err := k.Stream(t.Context(), tree.New(roll{}), func(yield func(*tree.Node, error) bool) {
		for yield(tree.New(task{n}, tree.Queue("nobody")), nil) {
			if n++; n == 250 {
				_, err := k.Cancel(t.Context(), tree.ID(one[int64](k, `SELECT min(id) FROM coppice.jobs`)), store.ScopeTree, me())
				require.NoError(t, err)
			}
		}
	})
	var closed *engine.NotOpenError
	require.ErrorAs(t, err, &closed)
	require.Less(t, n, 3_000)
	require.Zero(t, one[int](k, `SELECT count(*) FROM coppice.jobs`))
}

func TestAStreamsMemoryDoesNotGrowWithItsLength(t *testing.T) {
	if testing.Short() {
		t.Skip("it streams a hundred thousand jobs")
	}
	k := newKit(t) // not in parallel: it measures
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most, n := heap(), uint64(0), 0
	got, err := k.Stream(t.Context(), tree.New(roll{}), func(yield func(*tree.Node, error) bool) {
		for n < 100_000 {
			if n++; n%20_000 == 0 {
				most = max(most, heap())
			}
			if !yield(tree.New(task{n}), nil) {
				return
			}
		}
	})
	require.NoError(t, err)
	require.Equal(t, 100_000, got.Made)
	require.Less(t, int64(most)-int64(before), int64(32<<20), "bytes in use beside what there was")
	_, err = k.Cancel(t.Context(), got.ID, store.ScopeTree, me())
	require.NoError(t, err)
}
