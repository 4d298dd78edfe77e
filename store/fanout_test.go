package store_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func fanOutOf(t testing.TB, nodes ...*tree.Node) *tree.Plan {
	t.Helper()
	plan, err := tree.NewFanOut(nodes...)
	require.NoError(t, err)
	return plan
}

// fanOut claims one new job, alone in its queue, and fans out from it.
func (k *kit) fanOut(w tree.WorkerID, queue string, nodes ...*tree.Node) (store.Claim, *store.FannedOut) {
	k.t.Helper()
	k.insert(tree.New(task{}, tree.Queue(queue)))
	// No finalizers: those of earlier fan-outs may be ready by now.
	claimed, err := k.Claim(k.t.Context(), store.ClaimRequest{WorkerID: w, Queue: queue, Limit: 1, WorkKinds: []string{"task"}})
	require.NoError(k.t, err)
	got, err := k.FanOut(k.t.Context(), w, claimed.Jobs[0].Fence, fanOutOf(k.t, nodes...))
	require.NoError(k.t, err)
	return claimed.Jobs[0], got
}

func TestAFanOutThatIsSentTwiceIsMadeOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	children := []*tree.Node{tree.New(task{}), tree.New(task{}, tree.Queue("other")).Add(tree.New(task{}, tree.Queue("third")))}
	c, got := k.fanOut(w, tree.DefaultQueue, children...)
	require.Equal(t, &store.FannedOut{Made: 2, Woken: []string{"default", "other", "third"}}, got)
	again, err := k.FanOut(t.Context(), w, c.Fence, fanOutOf(t, children...))
	require.NoError(t, err)
	require.Equal(t, &store.FannedOut{Lost: true}, again, "as after an answer that was lost")
	row := k.job(c.ID)
	require.Equal(t, tree.Waiting, row.State)
	require.Equal(t, 2, row.Pending)
	require.Equal(t, 1, row.Round)
	require.Zero(t, row.Attempt)
	require.Equal(t, 4, k.number(`SELECT count(*) FROM coppice.jobs WHERE root_id = $1`, int64(c.ID)))
	require.Equal(t, 1, k.number(`SELECT count(*) FROM coppice.jobs WHERE parent_round = 1 AND state = 'waiting'`), "the inner node's own children are of its own first round")
}

func TestAFanOutThatDoesNotCommitLeavesNoChildren(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	for _, n := range []int{3, 1_000} { // by arrays, by COPY
		nodes := make([]*tree.Node, n)
		for i := range nodes {
			nodes[i] = tree.New(task{}, tree.Queue("children"))
		}
		k.insert(tree.New(task{}))
		c := k.claim(w, tree.DefaultQueue, 1)[0]
		// The job's row is held, so the fan-out waits, and its context ends while it does.
		release := k.lock(`SELECT FROM coppice.jobs WHERE id = $1 FOR UPDATE`, int64(c.ID))
		ctx, cancel := context.WithCancel(t.Context())
		plan := fanOutOf(t, nodes...)
		failed := make(chan error, 1)
		go func() {
			_, err := k.FanOut(ctx, w, c.Fence, plan)
			failed <- err
		}()
		k.blocked(1)
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		release()
		require.Zero(t, k.number(`SELECT count(*) FROM coppice.jobs WHERE queue = 'children'`))
		require.Equal(t, tree.Running, k.job(c.ID).State, "the claim stands")
		got, err := k.FanOut(t.Context(), w, c.Fence, fanOutOf(t, nodes...))
		require.NoError(t, err)
		require.Equal(t, n, got.Made)
		k.exec(`DELETE FROM coppice.jobs`)
	}
}

// TestChildrenThatEndTheMomentTheyAreThereWakeTheirParentOnce lets two workers settle children as soon as they can
// be claimed, while other jobs fan out.
func TestChildrenThatEndTheMomentTheyAreThereWakeTheirParentOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.watchReadiness()
	s := k.onPool(6)
	w := k.worker()
	n := rounds(300)
	ctx, stop := context.WithCancel(t.Context())
	var eaters sync.WaitGroup
	for range 2 {
		eaters.Go(func() {
			for ctx.Err() == nil {
				got, err := s.Claim(t.Context(), store.ClaimRequest{WorkerID: w, Queue: "children", Limit: 3, WorkKinds: []string{"task"}})
				if err != nil {
					t.Error(err)
					return
				}
				var batch []store.Ending
				for i := range got.Jobs {
					batch = append(batch, ending(&got.Jobs[i], store.EndCompleted))
				}
				if settled, err := s.Settle(t.Context(), w, batch); err != nil || len(settled.Lost) > 0 {
					t.Error(err, settled)
					return
				}
			}
		})
	}
	var makers sync.WaitGroup
	for _, queue := range []string{"one", "two"} {
		makers.Go(func() {
			for range n / 2 {
				_, got := k.fanOut(w, queue, tree.New(task{}, tree.Queue("children")), tree.New(task{}, tree.Queue("children")))
				if got.Lost {
					t.Error("a fan-out was lost")
				}
			}
		})
	}
	makers.Wait()
	require.Eventually(t, func() bool {
		return k.number(`SELECT count(*) FROM coppice.jobs WHERE state = 'ready' AND round = 1`) == n/2*2
	}, patience, 1e6)
	stop()
	eaters.Wait()
	k.requireReadiedOnce(n / 2 * 2)
}

func TestARescueAndAFanOutOfOneClaimDoNotBothHappen(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"rescue", "fan-out"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			w := k.worker()
			k.insert(tree.New(task{}))
			c := k.claim(w, tree.DefaultQueue, 1)[0]
			k.expire(w)
			plan := fanOutOf(t, tree.New(task{}))
			if first == "rescue" {
				require.Equal(t, 1, k.rescue(10).Retried)
			}
			got, err := k.FanOut(t.Context(), w, c.Fence, plan)
			require.NoError(t, err)
			require.Equal(t, first == "rescue", got.Lost)
			if first == "fan-out" {
				require.Zero(t, k.rescue(10).Retried)
			}
		})
	}
}
