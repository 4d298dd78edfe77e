package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func (k *kit) children(nodes ...*tree.Node) *tree.Plan {
	k.t.Helper()
	plan, err := tree.NewFanOut(nodes...)
	require.NoError(k.t, err)
	return plan
}

func (k *kit) add(parent tree.ID, nodes ...*tree.Node) *store.Added {
	k.t.Helper()
	got, err := k.AddChildren(k.t.Context(), parent, k.children(nodes...))
	require.NoError(k.t, err)
	return got
}

func open() *tree.Node { return tree.New(task{}, tree.Open(time.Hour)) }

func TestChildrenRunWhileOthersComeAndTheSealLetsTheirParentRun(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.watchReadiness()
	w := k.worker()
	id := k.insert(open())[0]
	k.requireState(tree.Waiting, id)
	for range 3 {
		require.Equal(t, &store.Added{Made: 2, Woken: []string{tree.DefaultQueue}}, k.add(id, wood(), wood(wood())))
		for {
			claims := k.claim(w, tree.DefaultQueue, 10)
			if len(claims) == 0 {
				break
			}
			for i := range claims {
				k.settle(w, completed(&claims[i]))
			}
		}
		row := k.job(id)
		require.Equal(t, tree.Waiting, row.State, "more may come")
		require.Zero(t, row.Pending)
	}
	woken, err := k.Seal(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, []string{tree.DefaultQueue}, woken)
	woken, err = k.Seal(t.Context(), id)
	require.NoError(t, err)
	require.Empty(t, woken)
	claims := k.claim(w, tree.DefaultQueue, 10)
	require.Len(t, claims, 1)
	require.Equal(t, 6, claims[0].Completed)
	require.Equal(t, 6, k.number(`SELECT count(*) FROM coppice.results WHERE parent_id = $1`, id))
	k.requireReadiedOnce(4)
	k.settle(w, completed(&claims[0]))
}

func TestASealWithoutChildrenAndOneBeforeTheLastChild(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(open(), tree.New(task{}, tree.Open(0), tree.Delay(time.Hour)), open())
	_, err := k.Seal(t.Context(), ids[0])
	require.NoError(t, err)
	_, err = k.Seal(t.Context(), ids[1])
	require.NoError(t, err)
	k.requireState(tree.Ready, ids[0])
	k.requireState(tree.Scheduled, ids[1])
	k.add(ids[2], tree.New(task{}, tree.Priority(-1)))
	woken, err := k.Seal(t.Context(), ids[2])
	require.NoError(t, err)
	require.Empty(t, woken)
	claims := k.claim(w, tree.DefaultQueue, 1)
	k.settle(w, completed(&claims[0]))
	k.requireState(tree.Ready, ids[2])
}

func TestOnlyAnOpenJobTakesChildren(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	refuses := func(id tree.ID, want store.NotOpenError) {
		t.Helper()
		want.ID = id
		var got *store.NotOpenError
		for _, nodes := range [][]*tree.Node{{wood()}, {tree.New(task{}, tree.Key("k"))}} {
			_, err := k.AddChildren(t.Context(), id, k.children(nodes...))
			require.ErrorAs(t, err, &got)
			require.Equal(t, want, *got)
		}
	}
	first := tree.Priority(-1)
	ids := k.insert(open(), open(), open(), tree.New(task{}, first), tree.New(task{}, first), wood(wood()), tree.New(task{}, tree.Delay(time.Hour)))
	_, err := k.Seal(t.Context(), ids[0])
	require.NoError(t, err)
	refuses(ids[0], store.NotOpenError{State: tree.Ready, Sealed: true})
	require.ErrorContains(t, func() error { _, err := k.AddChildren(t.Context(), ids[0], k.children(wood())); return err }(), "it is sealed")
	k.cancel(ids[1], store.ScopeJob)
	refuses(ids[1], store.NotOpenError{State: tree.Cancelled})
	k.add(ids[2], tree.New(task{}, tree.Priority(-2)))
	running := k.claim(w, tree.DefaultQueue, 1)
	k.cancel(ids[2], store.ScopeTree)
	refuses(ids[2], store.NotOpenError{State: tree.Waiting, Closing: "cancelled"})
	_, err = k.Seal(t.Context(), ids[2])
	var not *store.NotOpenError
	require.ErrorAs(t, err, &not)
	require.ErrorAs(t, k.KeepOpen(t.Context(), ids[2], time.Hour), &not)
	k.settle(w, ending(&running[0], store.EndStopped))
	_, err = k.Sweep(t.Context(), ids[2])
	require.NoError(t, err)
	claims := k.claim(w, tree.DefaultQueue, 2)
	k.settle(w, dead(&claims[0]), completed(&claims[1]))
	refuses(ids[3], store.NotOpenError{State: tree.Dead})
	refuses(ids[4], store.NotOpenError{State: tree.Completed})
	refuses(ids[5], store.NotOpenError{State: tree.Waiting, Sealed: true})
	refuses(ids[7], store.NotOpenError{State: tree.Scheduled, Sealed: true})
	refuses(1_000_000, store.NotOpenError{})
	_, err = k.Seal(t.Context(), ids[3])
	require.ErrorContains(t, err, "it is in the dead-letter queue; retry it first")
	require.ErrorContains(t, k.KeepOpen(t.Context(), 1_000_000, time.Hour), "there is no job 1000000")
	require.ErrorContains(t, k.KeepOpen(t.Context(), ids[0], 0), "outside")
}

func TestAStreamOfChildrenWithKeysMayBeginAnew(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	id := k.insert(open())[0]
	nodes := func(from, to int) (out []*tree.Node) {
		for i := from; i < to; i++ {
			out = append(out, tree.New(task{}, tree.Key(fmt.Sprint(i))))
		}
		return out
	}
	require.Equal(t, 500, k.add(id, nodes(0, 500)...).Made)
	claims := k.claim(w, tree.DefaultQueue, 5)
	k.settle(w, completed(&claims[0]), ending(&claims[1], store.EndCancelled), ending(&claims[2], store.EndCompleted))
	got := k.add(id, nodes(0, 600)...)
	require.Equal(t, 100, got.Made, "ready, running, completed and cancelled ones are there already")
	require.Equal(t, 500, got.Found)
	k.settle(w, dead(&claims[3]))
	_, err := k.AddChildren(t.Context(), id, k.children(nodes(0, 700)...))
	var gone *store.DeadChildError
	require.ErrorAs(t, err, &gone)
	require.Equal(t, claims[3].ID, gone.ID)
	require.Equal(t, 596, k.job(id).Pending)
}

func TestWhatIsNotSealedInTimeIsGivenUpWithAllThatIsLeft(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(wood(open(), wood()), open())
	k.add(ids[1], tree.New(task{}, tree.Priority(-1)), wood(wood()))
	claims := k.claim(w, tree.DefaultQueue, 1)
	require.NoError(t, k.KeepOpen(t.Context(), ids[1], time.Hour))
	k.exec(`UPDATE coppice.jobs SET seal_by = now() - interval '1 second' WHERE id = $1`, ids[1])
	_, err := k.CloseOverdue(t.Context(), 10)
	require.NoError(t, err)
	_, err = k.Sweep(t.Context(), ids[0])
	require.NoError(t, err)
	k.settle(w, completed(&claims[0]))
	_, err = k.Sweep(t.Context(), ids[0])
	require.NoError(t, err)
	require.Equal(t, 3, k.number(`SELECT count(*) FROM coppice.dead_jobs WHERE reason = 'never_sealed'`))
	row := k.job(ids[1])
	require.Contains(t, row.Error, "not sealed in time")
	require.Equal(t, 1, row.Completed, "a child that completed counts")
	require.NotNil(t, k.job(ids[0]).StalledAt)
	k.requireState(tree.Waiting, ids[3])
}

func TestChildrenOfAHeldBranchAreHeldHoweverTheHoldAndTheyMeet(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	id := k.insert(open())[0]
	hold := func() {
		_, err := k.Hold(t.Context(), id, store.ScopeBranch, me())
		require.NoError(t, err)
	}
	release := k.lock(`UPDATE coppice.jobs SET priority = priority WHERE id = $1`, id)
	added := make(chan error, 1)
	go func() { // it inserts, and waits for its parent
		_, err := k.AddChildren(t.Context(), id, k.children(wood(), wood(wood())))
		added <- err
	}()
	k.blocked(1)
	held := make(chan struct{})
	go func() {
		defer close(held)
		hold()
	}()
	k.blocked(2)
	release()
	require.NoError(t, <-added)
	<-held
	require.Zero(t, k.number(`SELECT count(*) FROM coppice.jobs WHERE NOT held`))
	k.add(id, wood())
	require.Zero(t, k.number(`SELECT count(*) FROM coppice.jobs WHERE NOT held`))
}
