package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// TestAFinalizerRunsWithAsManyDeadChildrenAsItTolerates runs parents of ten children, of which some die, under every
// tolerance around that number.
func TestAFinalizerRunsWithAsManyDeadChildrenAsItTolerates(t *testing.T) {
	t.Parallel()
	const children = 10
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		if job.Args.N < 0 {
			return nil, engine.Fatal(errBoom)
		}
		return job.Args.N, nil
	})
	k.onRoll(func(ctx context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		listed := 0
		for _, err := range kids.DeadJobs(ctx) {
			if err != nil {
				return nil, err
			}
			listed++
		}
		if listed != kids.Dead {
			return nil, engine.Fatal(fmt.Errorf("%d dead, %d listed", kids.Dead, listed))
		}
		return kids.Dead, nil
	})
	type sample struct {
		name string
		root tree.ID
		dead int
		runs bool
	}
	var samples []sample
	plant := func(name string, dead int, runs bool, options ...tree.Option) {
		root := tree.New(roll{}, options...)
		for n := range children {
			if n < dead {
				n = -1
			}
			root.Add(tree.New(task{n}))
		}
		samples = append(samples, sample{fmt.Sprintf("%s, %d of %d dead", name, dead, children), k.insert(root).ID, dead, runs})
	}
	for _, dead := range []int{0, 1, 3, 7, 10} {
		plant("no tolerance", dead, dead == 0)
		plant("proceed", dead, true, tree.OnDead(tree.Proceed), tree.Tolerate(0))
		for n := max(0, dead-1); n <= dead+1; n++ {
			plant(fmt.Sprintf("tolerate %d", n), dead, dead <= n, tree.Tolerate(n))
			if share := float64(n) / children; share <= 1 {
				plant(fmt.Sprintf("tolerate a share of %v", share), dead, dead <= n, tree.TolerateRatio(share))
				plant(fmt.Sprintf("tolerate 1 or a share of %v", share), dead, dead <= max(n, 1), tree.Tolerate(1), tree.TolerateRatio(share))
			}
		}
	}
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	for _, s := range samples {
		if s.runs {
			row := k.await(s.root, tree.Completed)
			require.Equal(t, fmt.Sprint(s.dead), string(row.Result), s.name)
			require.Nil(t, row.StalledAt, s.name)
			continue
		}
		k.eventually(func() bool { return one[int](k, `SELECT pending FROM coppice.jobs WHERE id = $1`, int64(s.root)) == 0 }, s.name)
		row := k.await(s.root, tree.Waiting)
		require.Equal(t, s.dead, row.Dead, s.name)
		require.NotNil(t, row.StalledAt, s.name)
	}
}
