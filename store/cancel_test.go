package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// me is who acts in tests.
func me() store.By { return store.By{Actor: "me", Reason: "the input was wrong"} }

func wood(children ...*tree.Node) *tree.Node {
	n := tree.New(task{})
	if len(children) > 0 {
		n.Add(children...)
	}
	return n
}

func (k *kit) cancel(id tree.ID, scope store.Scope) store.Cancelled {
	k.t.Helper()
	out, err := k.Cancel(k.t.Context(), id, scope, me())
	require.NoError(k.t, err)
	return out
}

func (k *kit) requireState(state tree.State, ids ...tree.ID) {
	k.t.Helper()
	for _, id := range ids {
		require.Equal(k.t, state, k.job(id).State, "job %d", id)
	}
}

func TestCancelEndsWhatDoesNotRunAtOnceInEveryState(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	ids := k.insert(wood(), tree.New(task{}, tree.Delay(time.Hour)), tree.New(task{}).Add())
	for _, id := range ids {
		out := k.cancel(id, store.ScopeJob)
		require.Equal(t, 1, out.Cancelled)
		require.Zero(t, out.Stopping)
		row := k.job(id)
		require.Equal(t, tree.Cancelled, row.State)
		require.Equal(t, "me", row.Actor)
		require.Equal(t, "the input was wrong", row.Error)
		require.Equal(t, 1, k.number(`SELECT count(*) FROM coppice.audit WHERE job_id = $1 AND action = 'cancel' AND actor = 'me'`, id))
		_, err := k.Cancel(t.Context(), id, store.ScopeJob, me())
		var gone *store.NotLiveError
		require.ErrorAs(t, err, &gone)
		require.Equal(t, tree.Cancelled, gone.State)
	}
	_, err := k.Cancel(t.Context(), 1_000_000, store.ScopeJob, me())
	require.ErrorContains(t, err, "there is no job 1000000")
}

func TestCancelOfABranchCountsForItsParentAndOfATreeTakesAll(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	// 0 root, 1 branch, 2 3 its leaves, 4 a leaf of the root.
	ids := k.insert(wood(wood(wood(), wood()), wood()))
	_, err := k.Cancel(t.Context(), ids[1], store.ScopeJob, me())
	var has *store.HasChildrenError
	require.ErrorAs(t, err, &has)
	require.Equal(t, 2, has.Children)

	require.Equal(t, 3, k.cancel(ids[1], store.ScopeBranch).Cancelled)
	k.requireState(tree.Cancelled, ids[1], ids[2], ids[3])
	root := k.job(ids[0])
	require.Equal(t, tree.Waiting, root.State)
	require.Equal(t, 1, root.Cancelled)
	require.Equal(t, 2, k.job(ids[1]).Cancelled, "the branch knows what became of its children")

	claims := k.claim(w, tree.DefaultQueue, 10)
	require.Len(t, claims, 1)
	k.settle(w, completed(&claims[0]))
	k.requireState(tree.Ready, ids[0])
	out := k.cancel(ids[4], store.ScopeTree)
	require.Equal(t, ids[0], out.RootID)
	require.Equal(t, 1, out.Cancelled)
	k.requireState(tree.Cancelled, ids[0])
	require.Zero(t, k.number(`SELECT count(*) FROM coppice.results`))
}

func TestWhatRunsIsAskedToStopAndTheFirstOutcomeWins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end   func(*store.Claim) store.Ending
		state tree.State
	}{
		"it completes":     {completed, tree.Completed},
		"it stops":         {func(c *store.Claim) store.Ending { return ending(c, store.EndStopped) }, tree.Cancelled},
		"it is released":   {func(c *store.Claim) store.Ending { return ending(c, store.EndReleased) }, tree.Cancelled},
		"it is snoozed":    {func(c *store.Claim) store.Ending { return ending(c, store.EndSnoozed) }, tree.Cancelled},
		"it fails":         {failed, tree.Cancelled},
		"it fails at last": {dead, tree.Cancelled},
		"it cancels":       {func(c *store.Claim) store.Ending { return ending(c, store.EndCancelled) }, tree.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			w := k.worker()
			ids := k.insert(wood(wood(wood(), wood()), wood()))
			claims := k.claim(w, tree.DefaultQueue, 1)
			require.Equal(t, ids[2], claims[0].ID)
			out := k.cancel(ids[0], store.ScopeTree)
			require.Equal(t, 1, out.Stopping)
			require.Equal(t, 2, out.Cancelled, "the leaves that do not run")
			require.Equal(t, []tree.WorkerID{w}, out.Workers)
			require.True(t, k.cancel(ids[0], store.ScopeTree).Already)
			k.requireState(tree.Waiting, ids[0], ids[1])
			told, err := k.Told(t.Context(), w)
			require.NoError(t, err)
			require.Equal(t, []store.Told{{Fence: claims[0].Fence, Closing: "cancelled", Actor: "me", Why: "the input was wrong"}}, told)

			settled := k.settle(w, c.end(&claims[0]))
			require.Equal(t, []tree.ID{ids[0]}, settled.Closing)
			k.requireState(c.state, ids[2])
			swept, err := k.Sweep(t.Context(), ids[0])
			require.NoError(t, err)
			require.Equal(t, 2, swept.Cancelled)
			k.requireState(tree.Cancelled, ids[0], ids[1])
			require.Equal(t, "me", k.job(ids[0]).Actor)
			require.Zero(t, k.number(`SELECT count(*) FROM coppice.dead_jobs`))
			require.Zero(t, k.number(`SELECT count(*) FROM coppice.results`), "results went with those who wanted them")
		})
	}
}

func TestADeadWorkersJobThatWasAskedToStopEndsSo(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(wood(wood(), wood()))
	k.claim(w, tree.DefaultQueue, 1)
	k.cancel(ids[0], store.ScopeTree)
	k.exec(`UPDATE coppice.workers SET expires_at = now() - interval '1 second'`)
	got, err := k.Rescue(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, got.Stopped)
	require.Equal(t, []tree.ID{ids[0]}, got.Closing)
	k.requireState(tree.Cancelled, ids[1], ids[2])
	_, err = k.Sweep(t.Context(), ids[0])
	require.NoError(t, err)
	k.requireState(tree.Cancelled, ids[0])
}

func TestAJobThatWasAskedToStopCannotFanOut(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(wood())
	claims := k.claim(w, tree.DefaultQueue, 1)
	k.cancel(ids[0], store.ScopeTree)
	plan, err := tree.NewFanOut(wood(), wood())
	require.NoError(t, err)
	got, err := k.FanOut(t.Context(), w, claims[0].Fence, plan)
	require.NoError(t, err)
	require.True(t, got.Stopped)
	require.Zero(t, k.number(`SELECT count(*) FROM coppice.jobs WHERE parent_id IS NOT NULL`))
	k.settle(w, ending(&claims[0], store.EndStopped))
	k.requireState(tree.Cancelled, ids[0])
}

func TestWithFailTheFirstDeadChildTakesItsTreeToTheDeadLetterQueue(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	// 0 root (waits), 1 fails with its children: 2 dies, 3 runs and completes, 4 is ready, 5 a branch with 6, 7 scheduled.
	ids := k.insert(wood(tree.New(task{}, tree.OnDead(tree.Fail)).Add(
		wood(), wood(), wood(), wood(wood()), tree.New(task{}, tree.Delay(time.Hour), tree.Dedup("k")),
	), wood()))
	claims := k.claim(w, tree.DefaultQueue, 2)
	settled := k.settle(w, dead(&claims[0]))
	require.Equal(t, []tree.ID{ids[0]}, settled.Closing)
	swept, err := k.Sweep(t.Context(), ids[0])
	require.NoError(t, err)
	require.Equal(t, 4, swept.DeadLettered)
	require.Equal(t, 1, swept.Stopping)
	k.requireState(tree.Running, ids[3])
	k.requireState(tree.Waiting, ids[0], ids[1])

	settled = k.settle(w, completed(&claims[1]))
	require.Equal(t, []tree.ID{ids[0]}, settled.Closing)
	_, err = k.Sweep(t.Context(), ids[0])
	require.NoError(t, err)
	k.requireState(tree.Dead, ids[1], ids[2], ids[4], ids[5], ids[6], ids[7])
	k.requireState(tree.Completed, ids[3])
	require.Equal(t, tree.ReasonFatal, k.job(ids[2]).Reason)
	for _, i := range []int{1, 4, 5, 6, 7} {
		row := k.job(ids[i])
		require.Equal(t, tree.ReasonFailFast, row.Reason)
		require.Contains(t, row.Error, fmt.Sprintf("job %d died", ids[2]))
	}
	require.Equal(t, "k", k.job(ids[7]).DroppedKey)
	require.Equal(t, 1, k.number(`SELECT count(*) FROM coppice.results WHERE parent_id = $1`, ids[1]), "the result of the child that completed is kept")
	root := k.job(ids[0])
	require.Equal(t, tree.Waiting, root.State)
	require.NotNil(t, root.StalledAt, "the root waits for its dead child")
}

func TestFailGoesUpForAsLongAsThePolicySaysSo(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	deep := wood()
	for range 30 {
		deep = tree.New(task{}, tree.OnDead(tree.Fail)).Add(deep)
	}
	ids := k.insert(wood(deep))
	claims := k.claim(w, tree.DefaultQueue, 1)
	k.settle(w, dead(&claims[0]))
	_, err := k.Sweep(t.Context(), ids[0])
	require.NoError(t, err)
	require.Equal(t, 31, k.number(`SELECT count(*) FROM coppice.dead_jobs`))
	k.requireState(tree.Waiting, ids[0])
}

func TestADeadlineCancelsWhatIsLeft(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(tree.New(task{}, tree.Deadline(time.Hour)).Add(wood(), wood()), tree.New(task{}, tree.Deadline(time.Hour)))
	claims := k.claim(w, tree.DefaultQueue, 1)
	k.settle(w, completed(&claims[0]))
	swept, err := k.CloseOverdue(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, swept)
	k.exec(`UPDATE coppice.jobs SET deadline_at = now() - interval '1 second' WHERE deadline_at IS NOT NULL`)
	swept, err = k.CloseOverdue(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, swept.Cancelled, "the lone job")
	roots, err := k.ClosingTrees(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Equal(t, []tree.ID{ids[0]}, roots)
	_, err = k.Sweep(t.Context(), ids[0])
	require.NoError(t, err)
	k.requireState(tree.Cancelled, ids[0], ids[2], ids[3])
	k.requireState(tree.Completed, ids[1])
	require.Equal(t, "its deadline passed", k.job(ids[0]).Error)
	require.Equal(t, 2, k.number(`SELECT count(*) FROM coppice.audit WHERE action = 'deadline' AND actor = 'coppice'`))
}

func TestCancelOfALargeTreeTakesManySmallTransactions(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	root := wood()
	for range 40 {
		branch := wood()
		for range 300 {
			branch.Add(wood())
		}
		root.Add(branch)
	}
	ids := k.insert(root)
	claims := k.claim(w, tree.DefaultQueue, 50)
	out := k.cancel(ids[0], store.ScopeBranch)
	require.Equal(t, 50, out.Stopping)
	require.Equal(t, 12_041-50-2, out.Cancelled, "all but what runs, its branch and the root")
	ends := make([]store.Ending, len(claims))
	for i := range claims {
		ends[i] = ending(&claims[i], store.EndStopped)
	}
	k.settle(w, ends...)
	_, err := k.Sweep(t.Context(), ids[0])
	require.NoError(t, err)
	require.Equal(t, 12_041, k.number(`SELECT count(*) FROM coppice.history WHERE state = 'cancelled'`))
}
