package store_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// because lists the reasons that are given for a job.
func (k *kit) because(id tree.ID) (out []store.Because) {
	k.t.Helper()
	e, err := k.Explain(k.t.Context(), id)
	require.NoError(k.t, err)
	require.NotEmpty(k.t, e.Reasons, "job %d is %s, and nothing says why", id, e.State)
	for _, o := range e.Reasons {
		out = append(out, o.Because)
	}
	return out
}

func (k *kit) obstacle(id tree.ID, because store.Because) store.Obstacle {
	k.t.Helper()
	e, err := k.Explain(k.t.Context(), id)
	require.NoError(k.t, err)
	i := slices.IndexFunc(e.Reasons, func(o store.Obstacle) bool { return o.Because == because })
	require.GreaterOrEqual(k.t, i, 0, "%v", e.Reasons)
	return e.Reasons[i]
}

func TestExplainSaysWhyAJobDoesNotRun(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	q := tree.DefaultQueue
	ids := k.insert(
		tree.New(task{}, tree.Priority(-9)), tree.New(task{}, tree.Delay(time.Hour)), tree.New(task{}, tree.Queue("else")), // 0 1 2
		grouped("g"), grouped("g"), limited("l"), limited("l"), // 3 to 6
		wood(wood(tree.New(task{}, tree.Priority(-8)), wood()), wood()), // 7 to 11
		open(), // 12
	)
	require.Equal(t, []store.Because{store.BecauseNoWorker}, k.because(ids[2]))
	w := k.worker()
	require.Equal(t, []store.Because{store.BecauseTurn}, k.because(ids[0]))
	require.Zero(t, k.obstacle(ids[0], store.BecauseTurn).Count)
	require.Positive(t, k.obstacle(ids[3], store.BecauseTurn).Count)
	due := k.obstacle(ids[1], store.BecauseDue)
	require.InDelta(t, time.Hour, due.In, float64(time.Minute))

	require.NoError(t, k.SetLimit(t.Context(), "l", store.Limit{MaxRunning: 1}, me()))
	claims := k.claim(w, q, 2)
	require.Equal(t, []tree.ID{ids[0], ids[9]}, idsOf(claims))
	running := k.obstacle(ids[0], store.BecauseRunning)
	require.Equal(t, w, running.Worker)
	back := failed(&claims[0])
	back.Delay = time.Hour
	k.settle(w, back, dead(&claims[1]))
	backing := k.obstacle(ids[0], store.BecauseDue)
	require.Equal(t, 1, backing.Count)
	require.Equal(t, "try again", backing.Why)
	stalled := k.obstacle(ids[8], store.BecauseStalled)
	require.Equal(t, []store.ObstacleJob{{ID: ids[9], Kind: "task", State: tree.Dead}}, stalled.Jobs)
	require.NotNil(t, stalled.Since)
	require.Equal(t, []store.Because{store.BecauseStalled, store.BecauseChildren}, k.because(ids[8]))
	children := k.obstacle(ids[7], store.BecauseChildren)
	require.Equal(t, 2, children.Count)
	require.Equal(t, []tree.ID{ids[8], ids[11]}, []tree.ID{children.Jobs[0].ID, children.Jobs[1].ID})
	require.Equal(t, store.BecauseDead, k.because(ids[9])[0])
	require.InDelta(t, time.Hour, k.obstacle(ids[12], store.BecauseUnsealed).In, float64(time.Minute))

	k.claim(w, q, 100)
	require.Equal(t, []store.ObstacleJob{{ID: ids[3], Kind: "task", State: tree.Running}}, k.obstacle(ids[4], store.BecauseGroup).Jobs)
	full := k.obstacle(ids[6], store.BecauseLimit)
	require.Equal(t, [2]int{1, 1}, [2]int{full.Count, full.Most})

	_, err := k.Hold(t.Context(), ids[7], store.ScopeTree, store.By{Actor: "ann", Reason: "look first"})
	require.NoError(t, err)
	held := k.obstacle(ids[8], store.BecauseHeld)
	require.Equal(t, "ann", held.Actor)
	require.Equal(t, "look first", held.Why)
	require.NotNil(t, held.Since)
	_, err = k.PauseQueue(t.Context(), q, store.By{Actor: "bob", Reason: "storm"})
	require.NoError(t, err)
	paused := k.obstacle(ids[4], store.BecausePaused)
	require.Equal(t, [2]string{"bob", "storm"}, [2]string{paused.Actor, paused.Why})
	k.cancel(ids[7], store.ScopeTree)
	require.Equal(t, store.BecauseClosing, k.because(ids[7])[0])
	require.Equal(t, store.BecauseClosing, k.because(ids[10])[0], "one that runs")
	k.expire(w)
	require.Contains(t, k.because(ids[3]), store.BecauseLost)
	_, err = k.Explain(t.Context(), 1_000_000)
	require.ErrorIs(t, err, store.ErrNotFound)

	all, err := k.ExplainTree(t.Context(), ids[11], 10)
	require.NoError(t, err)
	require.Equal(t, ids[7], all[0].ID)
	require.Contains(t, fmt.Sprint(all[1].ID, all[2].ID), ids[8].String())
	all, err = k.ExplainTree(t.Context(), ids[9], 2)
	require.NoError(t, err)
	require.Len(t, all, 2)
}

func TestExplainNamesTheLimitOfTheQueueAndTheHandlerThatIsMissing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	_, err := k.LimitQueue(t.Context(), tree.DefaultQueue, 1, me())
	require.NoError(t, err)
	require.NoError(t, k.SetLimit(t.Context(), "slow", store.Limit{Rate: 0.001, Burst: 1}, me()))
	ids := k.insert(wood(), wood(), tree.New(rare{}), limited("slow"), limited("slow"))
	k.claim(w, tree.DefaultQueue, 10)
	full := k.obstacle(ids[1], store.BecauseQueueFull)
	require.Equal(t, [2]int{1, 1}, [2]int{full.Count, full.Most})
	require.Equal(t, "rare", k.obstacle(ids[2], store.BecauseNoHandler).Key)
	_, err = k.LimitQueue(t.Context(), tree.DefaultQueue, 0, me())
	require.NoError(t, err)
	k.claim(w, tree.DefaultQueue, 10)
	require.Greater(t, k.obstacle(ids[4], store.BecauseLimit).In, 10*time.Minute)
}

type rare struct{}

func (rare) Kind() string { return "rare" }

// TestAMillionChildrenAreExplainedAndShownAtOnce needs COPPICE_MILLION=1: it takes a minute to make the tree.
func TestAMillionChildrenAreExplainedAndShownAtOnce(t *testing.T) {
	if os.Getenv("COPPICE_MILLION") == "" {
		t.Skip("it makes a tree of a million jobs: set COPPICE_MILLION")
	}
	k := newKit(t)
	w := k.worker()
	k.exec(`INSERT INTO coppice.jobs (id, root_id, state, kind, queue, round, pending, args) VALUES (1, 1, 'waiting', 'task', 'default', 1, 1000000, '{}')`)
	k.exec(`INSERT INTO coppice.jobs (id, root_id, parent_id, state, kind, queue, args)
		SELECT i, 1, 1, 'ready', 'task', 'default', '{}' FROM generate_series(2, 1000001) i`)
	k.exec(`SELECT setval('coppice.job_ids', 2000000)`)
	k.claim(w, tree.DefaultQueue, 1_000)
	for name, f := range map[string]func() error{
		"explain the root":      func() error { _, err := k.Explain(t.Context(), 1); return err },
		"explain the last":      func() error { _, err := k.Explain(t.Context(), 1_000_001); return err },
		"explain the tree":      func() error { _, err := k.ExplainTree(t.Context(), 1, 20); return err },
		"children":              func() error { _, err := k.NotableChildren(t.Context(), 1, 1, 10); return err },
		"live states":           func() error { _, err := k.LiveStates(t.Context(), 1, 1, 2_000); return err },
		"list of trees":         func() error { _, _, err := k.Trees(t.Context(), store.TreeFilter{}); return err },
		"explain one that runs": func() error { _, err := k.Explain(t.Context(), 2); return err },
		"counts of a tree":      func() error { _, err := k.TreeCounts(t.Context(), 1); return err },
	} {
		require.NoError(t, f())
		begun := time.Now()
		require.NoError(t, f())
		took := time.Since(begun)
		t.Logf("%s: %v", name, took)
		require.Less(t, took, 200*time.Millisecond, name)
	}
}
