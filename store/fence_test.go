package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// allEnds are a claim's endings of every kind.
func allEnds(c *store.Claim) map[string]store.Ending {
	later := failed(c)
	later.Delay = patience
	snoozed := ending(c, store.EndSnoozed)
	snoozed.Delay = patience
	return map[string]store.Ending{
		"completed": completed(c), "dead": dead(c), "failed": failed(c), "failed, later": later, "snoozed": snoozed,
		"released": ending(c, store.EndReleased), "cancelled": ending(c, store.EndCancelled),
	}
}

// state is every row that a settle may write, as text.
func (k *kit) state() string {
	k.t.Helper()
	var text string
	require.NoError(k.t, k.db.Pool.QueryRow(k.t.Context(), `
		SELECT coalesce(string_agg(line, E'\n' ORDER BY line), '') FROM (
			SELECT 'live ' || j::text AS line FROM coppice.jobs j
			UNION ALL SELECT 'dead ' || d::text FROM coppice.dead_jobs d
			UNION ALL SELECT 'history ' || h::text FROM coppice.history h
			UNION ALL SELECT 'result ' || r::text FROM coppice.results r
			UNION ALL SELECT 'error ' || e::text FROM coppice.job_errors e) l`).Scan(&text))
	return text
}

// requireLost settles and expects that the fence was passed and nothing was written.
func (k *kit) requireLost(w tree.WorkerID, e store.Ending, why string) {
	k.t.Helper()
	was := k.state()
	got, err := k.Settle(k.t.Context(), w, []store.Ending{e})
	require.NoError(k.t, err)
	require.Equal(k.t, []store.Fence{e.Fence}, got.Lost, why)
	require.Empty(k.t, got.Woken, why)
	require.Equal(k.t, was, k.state(), why)
}

// forms are a job that stands alone, a leaf and a finalizer, each with the number of claims that it takes until the one
// that the test is about.
func forms() map[string]func(*kit, tree.WorkerID) *store.Claim {
	one := func(k *kit, w tree.WorkerID) *store.Claim {
		claims := k.claim(w, tree.DefaultQueue, 10)
		require.Len(k.t, claims, 1)
		return &claims[0]
	}
	return map[string]func(*kit, tree.WorkerID) *store.Claim{
		"alone": func(k *kit, w tree.WorkerID) *store.Claim {
			k.insert(tree.New(task{}))
			return one(k, w)
		},
		"leaf": func(k *kit, w tree.WorkerID) *store.Claim {
			k.insert(tree.New(task{}, tree.Queue("parents")).Add(tree.New(task{})))
			return one(k, w)
		},
		"finalizer": func(k *kit, w tree.WorkerID) *store.Claim {
			k.insert(tree.New(task{}).Add(tree.New(task{})))
			k.settle(w, completed(one(k, w)))
			return one(k, w)
		},
		"inner finalizer": func(k *kit, w tree.WorkerID) *store.Claim {
			k.insert(tree.New(task{}, tree.Queue("parents")).Add(tree.New(task{}).Add(tree.New(task{}))))
			k.settle(w, completed(one(k, w)))
			return one(k, w)
		},
	}
}

func TestALateAcknowledgementIsLostAndChangesNothing(t *testing.T) {
	t.Parallel()
	for form, claim := range forms() {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			w, other := k.worker(), k.worker()
			names := allEnds(&store.Claim{})
			for first := range names {
				c := claim(k, w)
				ends := allEnds(c)
				for late, e := range ends {
					k.requireLost(other, e, "another worker's "+late)
					stale := e
					stale.Seq--
					k.requireLost(w, stale, "an older claim's "+late)
					stale.Seq += 2
					k.requireLost(w, stale, "a claim's to come "+late)
				}
				k.settle(w, ends[first])
				for late, e := range ends {
					k.requireLost(w, e, late+" after "+first)
				}
				k.exec(`UPDATE coppice.jobs SET state = 'ready', run_at = now() WHERE state = 'scheduled'`)
				for _, again := range k.claim(other, tree.DefaultQueue, 10) {
					for late, e := range ends {
						k.requireLost(w, e, late+" after "+first+" and another claim")
						k.requireLost(other, e, late+" after "+first+" under the new worker's name")
					}
					k.settle(other, completed(&again))
				}
				for _, parent := range k.claim(other, "parents", 10) {
					k.settle(other, completed(&parent))
				}
				k.exec(`DELETE FROM coppice.jobs`) // of parents that a dead child holds up
				k.exec(`DELETE FROM coppice.dead_jobs`)
				k.exec(`DELETE FROM coppice.results`)
			}
		})
	}
}

func TestASettleThatIsRepeatedAfterALostAnswerConverges(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	k.insert(append(pairs(20, tree.OnDead(tree.Proceed), tree.Queue("parents")), singles(10)...)...)
	k.watchReadiness()
	claims := k.claim(w, tree.DefaultQueue, 100)
	require.Len(t, claims, 50)
	names := []string{"completed", "dead", "cancelled", "completed", "snoozed", "failed, later"}
	batch := make([]store.Ending, len(claims))
	for i := range claims {
		batch[i] = allEnds(&claims[i])[names[i%len(names)]]
	}
	k.settle(w, batch...)
	was := k.state()
	for range 3 {
		got, err := k.Settle(t.Context(), w, batch)
		require.NoError(t, err)
		require.Len(t, got.Lost, len(batch))
		require.Equal(t, was, k.state())
	}
}

func TestLostEndingsOfABatchDoNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w, other := k.worker(), k.worker()
	k.insert(append(pairs(2), singles(2)...)...)
	claims := k.claim(w, tree.DefaultQueue, 100)
	require.Len(t, claims, 6)
	k.settle(w, ending(&claims[0], store.EndReleased), ending(&claims[4], store.EndReleased))
	again := k.claim(other, tree.DefaultQueue, 100)
	require.Len(t, again, 2)
	var batch []store.Ending
	for i := range claims {
		batch = append(batch, completed(&claims[i]))
	}
	got, err := k.Settle(t.Context(), w, batch)
	require.NoError(t, err)
	require.Equal(t, []store.Fence{claims[0].Fence, claims[4].Fence}, got.Lost)
	require.Equal(t, []string{tree.DefaultQueue}, got.Woken)
	k.settle(other, completed(&again[0]), dead(&again[1]))
	require.Equal(t, tree.Ready, k.job(claims[0].ParentID).State)
}

// TestTwoClaimsOfOneJobInABatchAreToldApart has an old claim's outcome in the same batch as the newer one's: a worker
// that lost a job and got it again may have both to write.
func TestTwoClaimsOfOneJobInABatchAreToldApart(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*store.Claim) store.Ending{"completed": completed, "dead": dead, "failed": failed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			w := k.worker()
			k.insert(tree.New(task{}), tree.New(task{}, tree.Queue("parents")).Add(tree.New(task{})))
			old := k.claim(w, tree.DefaultQueue, 10)
			k.settle(w, ending(&old[0], store.EndReleased), ending(&old[1], store.EndReleased))
			now := k.claim(w, tree.DefaultQueue, 10)
			got, err := k.Settle(t.Context(), w, []store.Ending{dead(&old[0]), end(&now[0]), completed(&old[1]), end(&now[1])})
			require.NoError(t, err)
			require.ElementsMatch(t, []store.Fence{old[0].Fence, old[1].Fence}, got.Lost)
		})
	}
}

func TestAnEndingThatStandsInABatchTwiceIsWrittenOnce(t *testing.T) {
	t.Parallel()
	for name, claim := range forms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			w := k.worker()
			for _, end := range []string{"completed", "dead", "cancelled", "failed, later"} {
				c := claim(k, w)
				e := allEnds(c)[end]
				k.settle(w, e, e)
				places := k.number(`SELECT (SELECT count(*) FROM coppice.jobs WHERE id = $1) + (SELECT count(*) FROM coppice.history WHERE id = $1)
					+ (SELECT count(*) FROM coppice.dead_jobs WHERE id = $1)`, int64(c.ID))
				require.Equal(t, 1, places, end)
				testErrors := k.number(`SELECT count(*) FROM coppice.job_errors WHERE job_id = $1`, int64(c.ID))
				require.LessOrEqual(t, testErrors, 1, end)
			}
		})
	}
}
