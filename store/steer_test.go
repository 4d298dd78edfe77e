package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func TestHoldOutlivesEverythingThatHappensToAJob(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(wood(wood(), wood(), tree.New(task{}, tree.Delay(time.Hour))))
	running := k.claim(w, tree.DefaultQueue, 1)
	out, err := k.Hold(t.Context(), ids[1], store.ScopeTree, me())
	require.NoError(t, err)
	require.Equal(t, 4, out.Changed)
	require.Equal(t, ids[0], out.RootID)
	again, err := k.Hold(t.Context(), ids[1], store.ScopeTree, me())
	require.NoError(t, err)
	require.Zero(t, again.Changed)
	told, err := k.Told(t.Context(), w)
	require.NoError(t, err)
	require.Len(t, told, 1)
	require.True(t, told[0].Held)
	require.Empty(t, told[0].Closing)

	require.Empty(t, k.claim(w, tree.DefaultQueue, 10))
	settled := k.settle(w, failed(&running[0])) // ready again, and held
	require.Empty(t, settled.Closing)
	require.Empty(t, k.claim(w, tree.DefaultQueue, 10))
	k.exec(`UPDATE coppice.jobs SET run_at = now() - interval '1 second' WHERE state = 'scheduled'`)
	require.Empty(t, k.claim(w, tree.DefaultQueue, 10), "a held job is not made ready when it comes due")

	released, err := k.Release(t.Context(), ids[2], store.ScopeJob, me())
	require.NoError(t, err)
	require.Equal(t, 1, released.Changed)
	require.Equal(t, []string{tree.DefaultQueue}, released.Woken)
	claims := k.claim(w, tree.DefaultQueue, 10)
	require.Len(t, claims, 1)
	k.settle(w, completed(&claims[0]))
	for _, id := range []tree.ID{ids[1], ids[3]} {
		_, err = k.Release(t.Context(), id, store.ScopeJob, me())
		require.NoError(t, err)
		claims = k.claim(w, tree.DefaultQueue, 10)
		require.Len(t, claims, 1)
		k.settle(w, completed(&claims[0]))
	}
	root := k.job(ids[0])
	require.Equal(t, tree.Ready, root.State)
	require.True(t, root.Held, "waking a finalizer does not undo a person's hold")
	require.Empty(t, k.claim(w, tree.DefaultQueue, 10))
	_, err = k.Release(t.Context(), ids[0], store.ScopeTree, me())
	require.NoError(t, err)
	claims = k.claim(w, tree.DefaultQueue, 10)
	require.Len(t, claims, 1)
	k.settle(w, completed(&claims[0]))
	require.Equal(t, 1, k.number(`SELECT count(*) FROM coppice.audit WHERE action = 'hold' AND detail->>'scope' = 'tree'`))
	_, err = k.Hold(t.Context(), ids[0], store.ScopeTree, me())
	require.ErrorContains(t, err, fmt.Sprintf("no job of tree %d is live", ids[0]))
}

func TestWhatFansOutUnderAHeldBranchIsHeld(t *testing.T) {
	t.Parallel()
	for scope, held := range map[store.Scope]int{store.ScopeJob: 0, store.ScopeBranch: 3} {
		k := newKit(t)
		w := k.worker()
		ids := k.insert(wood())
		claims := k.claim(w, tree.DefaultQueue, 1)
		_, err := k.Hold(t.Context(), ids[0], scope, me())
		require.NoError(t, err)
		plan, err := tree.NewFanOut(wood(), wood(wood()))
		require.NoError(t, err)
		_, err = k.FanOut(t.Context(), w, claims[0].Fence, plan)
		require.NoError(t, err)
		require.Equal(t, held, k.number(`SELECT count(*) FROM coppice.jobs WHERE held AND parent_id IS NOT NULL`), scope)
		_, err = k.Release(t.Context(), ids[0], store.ScopeTree, me())
		require.NoError(t, err)
		require.Zero(t, k.number(`SELECT count(*) FROM coppice.jobs WHERE held OR hold_below`))
	}
}

func TestRunNowMakesScheduledJobsReadyAndLeavesHoldsAlone(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	later := func() *tree.Node { return tree.New(task{}, tree.Delay(time.Hour)) }
	ids := k.insert(later().Add(later(), later().Add(later()), later()))
	claims := k.claim(w, tree.DefaultQueue, 1)
	require.Empty(t, claims)
	_, err := k.Hold(t.Context(), ids[4], store.ScopeJob, me())
	require.NoError(t, err)
	out, err := k.RunNow(t.Context(), ids[1], store.ScopeJob, me())
	require.NoError(t, err)
	require.Equal(t, 1, out.Changed)
	require.Equal(t, []string{tree.DefaultQueue}, out.Woken)
	claims = k.claim(w, tree.DefaultQueue, 10)
	require.Len(t, claims, 1)
	back := failed(&claims[0])
	back.Delay = time.Hour
	k.settle(w, back)
	out, err = k.RunNow(t.Context(), ids[1], store.ScopeTree, me())
	require.NoError(t, err)
	require.Equal(t, 5, out.Changed, "the one that backs off, and finalizers that are to run later")
	claims = k.claim(w, tree.DefaultQueue, 10)
	require.Len(t, claims, 2)
	require.Equal(t, 2, claims[0].Attempt+claims[1].Attempt-1, "running now costs no attempt and gives none back")
	k.settle(w, completed(&claims[0]), completed(&claims[1]))
	k.requireState(tree.Ready, ids[2], ids[4])
	require.True(t, k.job(ids[4]).Held)
}

func TestPriorityChangesForAJobOrAllOfATree(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(wood(), wood(wood(), wood()))
	out, err := k.SetPriority(t.Context(), ids[2], store.ScopeTree, -5, me())
	require.NoError(t, err)
	require.Equal(t, 3, out.Changed)
	out, err = k.SetPriority(t.Context(), ids[3], store.ScopeJob, -6, me())
	require.NoError(t, err)
	require.Equal(t, 1, out.Changed)
	claims := k.claim(w, tree.DefaultQueue, 10)
	require.Len(t, claims, 3)
	require.Equal(t, []tree.ID{ids[3], ids[2], ids[0]}, []tree.ID{claims[0].ID, claims[1].ID, claims[2].ID})
	_, err = k.SetPriority(t.Context(), ids[0], store.ScopeJob, 40_000, me())
	require.ErrorContains(t, err, "priority 40000 is outside -32768 to 32767")
	require.Equal(t, "-5", k.text(`SELECT detail->>'priority' FROM coppice.audit WHERE action = 'priority' ORDER BY id LIMIT 1`))
}

func TestActsRefuseWhatTheyCannotKnow(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(wood(wood()))
	claims := k.claim(w, tree.DefaultQueue, 1)
	k.settle(w, dead(&claims[0]))
	_, err := k.Hold(t.Context(), ids[1], store.ScopeJob, me())
	require.ErrorContains(t, err, "is in the dead-letter queue, not live")
	_, err = k.Hold(t.Context(), ids[0], "all", me())
	require.ErrorContains(t, err, `"all" is no scope; there are "job", "branch" and "tree"`)
	_, err = k.Cancel(t.Context(), ids[0], store.ScopeJob, store.By{})
	require.ErrorContains(t, err, "needs an actor")
	_, err = k.RunNow(t.Context(), 999_999, store.ScopeTree, me())
	require.ErrorContains(t, err, "there is no job 999999")
	// The tree of a job that is dead is live still.
	reach, err := k.Reach(t.Context(), ids[1], store.ScopeTree)
	require.NoError(t, err)
	require.Equal(t, store.Reach{RootID: ids[0], Jobs: 1, Waiting: 1}, reach)
	require.Equal(t, 1, k.cancel(ids[1], store.ScopeTree).Cancelled)
	k.requireState(tree.Dead, ids[1])
}

func TestReachCountsByState(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(wood(wood(), wood(wood()), tree.New(task{}, tree.Delay(time.Hour))), wood())
	k.claim(w, tree.DefaultQueue, 1)
	_, err := k.Hold(t.Context(), ids[3], store.ScopeJob, me())
	require.NoError(t, err)
	for scope, want := range map[store.Scope]store.Reach{
		store.ScopeJob:    {RootID: ids[0], Jobs: 1, Waiting: 1},
		store.ScopeBranch: {RootID: ids[0], Jobs: 2, Waiting: 1, Ready: 1, Held: 1},
		store.ScopeTree:   {RootID: ids[0], Jobs: 5, Waiting: 2, Ready: 1, Running: 1, Scheduled: 1, Held: 1},
	} {
		got, err := k.Reach(t.Context(), ids[2], scope)
		require.NoError(t, err)
		require.Equal(t, want, got, scope)
	}
}
