package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

type leaf struct{ N int }

func (leaf) Kind() string { return "leaf" }

type sum struct{ N int }

func (sum) Kind() string { return "sum" }

// sums registers handlers that add up the leaves of a tree and send each root's total.
func sums(k *kit) <-chan int {
	totals := make(chan int, 1_000)
	engine.MustWork(k.reg, func(_ context.Context, job *engine.Job[leaf]) (int, error) { return job.Args.N, nil })
	engine.MustFinalize(k.reg, func(ctx context.Context, job *engine.Job[sum], kids *engine.Children) (int, error) {
		total := 0
		for kid, err := range engine.Results[int](ctx, kids) {
			if err != nil {
				return 0, err
			}
			total += kid.Value
		}
		if job.ParentID == 0 {
			totals <- total
		}
		return total, nil
	})
	return totals
}

func TestATreeRollsItsResultsUp(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	totals := sums(k)
	k.work(engine.WorkerConfig{})
	root, want := tree.New(sum{}), 0
	for range 10 {
		branch := tree.New(sum{})
		for n := range 100 {
			branch.Add(tree.New(leaf{n}))
			want += n
		}
		root.Add(branch)
	}
	r := k.insert(root)
	require.Len(t, r.IDs, 1_011)
	require.Equal(t, want, receive(t, totals))
	row := k.await(r.ID, tree.Completed)
	require.Equal(t, 10, row.Completed)
}
