package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// parcel is a task of a certain size.
type parcel struct{ Fill string }

func (parcel) Kind() string { return "task" }

// TestAStreamsChunksAreBoundedInNumberAndBytesAndJobs streams many small children, and then large ones and ones with many
// below them, when the chunks have become long.
func TestAStreamsChunksAreBoundedInNumberAndBytesAndJobs(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	idle := tree.Queue("nobody")
	large := strings.Repeat("x", 700_000)
	got, err := k.Stream(t.Context(), tree.New(roll{}), func(yield func(*tree.Node, error) bool) {
		for i := range 9_000 {
			if !yield(tree.New(task{i}, idle), nil) {
				return
			}
		}
		for range 20 {
			if !yield(tree.New(parcel{large}, idle), nil) {
				return
			}
		}
		for range 5 {
			child := tree.New(roll{}, idle)
			for i := range 4_000 {
				child.Add(tree.New(task{i}, idle))
			}
			if !yield(child, nil) {
				return
			}
		}
	})
	require.NoError(t, err)
	require.Equal(t, 9_025, got.Made)
	// What one transaction made has one xmin.
	most := func(what string) int {
		return one[int](k, `SELECT max(n) FROM (SELECT `+what+` AS n FROM coppice.jobs WHERE parent_id IS NOT NULL GROUP BY xmin::text) c`)
	}
	require.Equal(t, 2_000, most(`count(*) FILTER (WHERE parent_id = root_id)`))
	require.Less(t, most(`sum(length(args::text))`), 4<<20+len(large)+100)
	require.Less(t, most(`count(*)`), 10_000+4_001)
	_, err = k.Cancel(t.Context(), got.ID, store.ScopeTree, me())
	require.NoError(t, err)
}

// TestASlowStreamsChildrenDoNotWaitForOthersToFillTheirChunk yields a child now and then until the first has run.
func TestASlowStreamsChildrenDoNotWaitForOthersToFillTheirChunk(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	ran := make(chan struct{}, 1_000)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { ran <- struct{}{}; return nil, nil })
	k.onRoll(func(context.Context, *engine.Job[roll], *engine.Children) (any, error) { return nil, nil })
	k.work(engine.WorkerConfig{})
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	n := 0
	got, err := k.Stream(t.Context(), tree.New(roll{}), func(yield func(*tree.Node, error) bool) {
		for ; n < 90 && len(ran) == 0; n++ {
			if !yield(tree.New(task{n}), nil) {
				return
			}
			<-pace.C
		}
	})
	require.NoError(t, err)
	require.Less(t, n, 90, "fewer than the first chunk takes")
	require.Equal(t, n, k.await(got.ID, tree.Completed).Completed)
}

func TestAStreamDoesNotReplaceTheJobThatHoldsItsParentsKey(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	held := k.insert(tree.New(task{1}, tree.Dedup("k")))
	never := func(func(*tree.Node, error) bool) { t.Error("there is nothing to stream into") }
	_, err := k.Stream(t.Context(), tree.New(roll{}, tree.Dedup("k"), tree.OnDuplicate(tree.Replace)), never)
	require.ErrorIs(t, err, tree.ErrInvalid)
	require.ErrorContains(t, err, "is for jobs that stand alone")
	_, err = k.Stream(t.Context(), tree.New(roll{}, tree.Dedup("k")), never)
	var duplicate *engine.DuplicateError
	require.ErrorAs(t, err, &duplicate)
	require.Equal(t, held.ID, duplicate.ID)
	_, err = k.Stream(t.Context(), nil, never)
	require.ErrorIs(t, err, tree.ErrInvalid)
	row, err := k.Store().Job(t.Context(), held.ID)
	require.NoError(t, err)
	require.JSONEq(t, `{"n":1}`, string(row.Args))
}
