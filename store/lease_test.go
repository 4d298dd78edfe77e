package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// TestBeatsAtOneMomentAllHold is about a database that reports how many rows an UPDATE changed: one that
// changes nothing would look like a lost lease.
func TestBeatsAtOneMomentAllHold(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s, w := k.onPool(8), k.worker()
	tx, err := k.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	for range 2 { // of one transaction, and so of one now()
		tag, err := tx.Exec(t.Context(), `UPDATE coppice.workers SET beat_at = now() WHERE id = $1`, int64(w))
		require.NoError(t, err)
		require.EqualValues(t, 1, tag.RowsAffected())
	}
	require.NoError(t, tx.Rollback(t.Context()))
	together(t, 8, func(int) error {
		held, err := s.Beat(t.Context(), w, time.Hour, false)
		require.True(t, held)
		return err
	})
	require.Equal(t, 1, k.number(`SELECT count(*) FROM coppice.workers WHERE expires_at > now() + interval '59 minutes'`))
}

func TestARescueLeavesTheJobsOfLivingWorkersAlone(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	alive, silent := k.worker(), k.worker()
	k.insert(singles(4)...)
	kept, taken := k.claim(alive, tree.DefaultQueue, 2), k.claim(silent, tree.DefaultQueue, 2)
	k.expire(silent)
	require.Equal(t, store.Rescued{Workers: 1, Retried: 2, Woken: []string{tree.DefaultQueue}}, k.rescue(10))
	for i := range kept {
		require.Equal(t, tree.Running, k.job(kept[i].ID).State)
		require.Equal(t, tree.Ready, k.job(taken[i].ID).State)
	}
	k.settle(alive, completed(&kept[0]), completed(&kept[1]))
}

// TestFailuresAndLostWorkersDrawOnOneBudget also looks at how each of the two is told from the other afterwards.
func TestFailuresAndLostWorkersDrawOnOneBudget(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	id := k.insert(tree.New(task{}, tree.MaxAttempts(4)))[0]
	for attempt := 1; attempt <= 4; attempt++ {
		w := k.worker()
		claims := k.claim(w, tree.DefaultQueue, 1)
		require.Len(t, claims, 1)
		require.Equal(t, attempt, claims[0].Attempt)
		if attempt%2 == 1 {
			k.settle(w, failed(&claims[0]))
			continue
		}
		k.expire(w)
		k.rescue(10)
	}
	row := k.job(id)
	require.Equal(t, tree.Dead, row.State)
	require.Equal(t, tree.ReasonLost, row.Reason, "the last attempt was lost")
	require.Equal(t, 4, row.Attempt)
	require.Equal(t, 2, row.Lost)
	failures, err := k.Errors(t.Context(), id, 0)
	require.NoError(t, err)
	var outcomes []tree.Outcome
	for _, f := range failures {
		outcomes = append(outcomes, f.Outcome)
	}
	require.Equal(t, []tree.Outcome{tree.OutcomeLost, tree.OutcomeError, tree.OutcomeLost, tree.OutcomeError}, outcomes)
}
