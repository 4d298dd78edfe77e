package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// behind starts a settle that has to wait for a lock, commits the lock's transaction and returns what the settle says.
func (k *kit) behind(commit func(), w tree.WorkerID, endings ...store.Ending) *store.Settled {
	k.t.Helper()
	type answer struct {
		got *store.Settled
		err error
	}
	done := make(chan answer, 1)
	go func() {
		got, err := k.Settle(k.t.Context(), w, endings)
		done <- answer{got, err}
	}()
	k.blocked(1)
	commit()
	a := <-done
	require.NoError(k.t, a.err)
	return a.got
}

// TestASettleWaitsForAnOperatorsChangeAndGoesOn changes rows that a settle is about to take, in ways that leave the claim
// as it was.
func TestASettleWaitsForAnOperatorsChangeAndGoesOn(t *testing.T) {
	t.Parallel()
	changes := map[string]string{
		"hold":       `UPDATE coppice.jobs SET held = true WHERE id = $1`,
		"priority":   `UPDATE coppice.jobs SET priority = 7 WHERE id = $1`,
		"queue":      `UPDATE coppice.jobs SET queue = 'elsewhere' WHERE id = $1`, // also moves it in every index
		"lock alone": `SELECT FROM coppice.jobs WHERE id = $1 FOR UPDATE`,
	}
	for form, claim := range forms() {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			w := k.worker()
			for change, sql := range changes {
				for end := range allEnds(&store.Claim{}) {
					c := claim(k, w)
					got := k.behind(k.lock(sql, int64(c.ID)), w, allEnds(c)[end])
					require.Empty(t, got.Lost, "%s behind a change of %s", end, change)
					row := k.job(c.ID)
					require.NotEqual(t, tree.Running, row.State)
					if change == "hold" {
						require.True(t, row.Held, "the hold outlives the settle")
					}
					k.exec(`DELETE FROM coppice.jobs`)
					k.exec(`DELETE FROM coppice.dead_jobs`)
					k.exec(`DELETE FROM coppice.results`)
				}
			}
		})
	}
}

func TestASettleWaitsForAChangeOfTheParentAndGoesOn(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	k.watchReadiness()
	for change, set := range map[string]string{
		"hold": `held = true`, "priority": `priority = 7`, "policy": `on_dead = 'proceed'`, "due time": `run_at = now() + interval '1 hour'`,
	} {
		for end := range map[string]bool{"completed": true, "dead": true, "cancelled": true} {
			ids := k.insert(tree.New(task{}).Add(tree.New(task{}, tree.Queue("left")), tree.New(task{}, tree.Queue("left"))))
			claims := k.claim(w, "left", 10)
			require.Len(t, claims, 2)
			k.settle(w, completed(&claims[0]))
			commit := k.lock(`UPDATE coppice.jobs SET `+set+` WHERE id = $1`, int64(ids[0]))
			got := k.behind(commit, w, allEnds(&claims[1])[end])
			require.Empty(t, got.Lost, "%s behind a change of %s", end, change)
			row := k.job(ids[0])
			want := tree.Ready
			switch {
			case change == "policy": // made while the settle waited, and heeded
			case end == "dead":
				want = tree.Waiting
			case change == "due time":
				want = tree.Scheduled
			}
			require.Equal(t, want, row.State, "%s behind a change of %s", end, change)
			require.Equal(t, change == "hold", row.Held)
		}
	}
}

func TestAForcedChangeOfTheFenceIsTheOneThingThatLosesAClaim(t *testing.T) {
	t.Parallel()
	for form, claim := range forms() {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			w := k.worker()
			for end := range allEnds(&store.Claim{}) {
				c := claim(k, w)
				commit := k.lock(`UPDATE coppice.jobs SET state = 'ready', worker_id = NULL, claim_seq = claim_seq + 1 WHERE id = $1`, int64(c.ID))
				got := k.behind(commit, w, allEnds(c)[end])
				require.Equal(t, []store.Fence{c.Fence}, got.Lost, end)
				require.Equal(t, tree.Ready, k.job(c.ID).State)
				k.exec(`DELETE FROM coppice.jobs`)
				k.exec(`DELETE FROM coppice.results`)
			}
		})
	}
}

func TestAClaimPassesOverWhatAnOperatorHoldsLocked(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(singles(3)...)
	commit := k.lock(`UPDATE coppice.jobs SET held = true WHERE id = $1`, int64(ids[0]))
	claims := k.claim(w, tree.DefaultQueue, 10)
	require.Len(t, claims, 2)
	commit()
	require.Empty(t, k.claim(w, tree.DefaultQueue, 10), "it is held")
	k.exec(`UPDATE coppice.jobs SET held = false`)
	require.Len(t, k.claim(w, tree.DefaultQueue, 10), 1)
}
