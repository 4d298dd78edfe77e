package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// TestAJobThatCannotBeRescuedHoldsUpNoOther damages the tables by hand, so that one job of a dead worker cannot be
// moved to the dead-letter queue.
func TestAJobThatCannotBeRescuedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	first, second := k.worker(), k.worker()
	ids := k.insert(tree.New(task{}, tree.MaxAttempts(1)), tree.New(task{}, tree.MaxAttempts(1)), tree.New(task{}, tree.MaxAttempts(1)))
	require.Len(t, k.claim(first, tree.DefaultQueue, 3), 3)
	other := k.insert(tree.New(task{}))
	require.Len(t, k.claim(second, tree.DefaultQueue, 1), 1)
	k.exec(`INSERT INTO coppice.dead_jobs (id, root_id, state, queue, kind, args, reason) VALUES ($1, $1, 'dead', 'default', 'task', '{}', 'fatal')`, int64(ids[1]))
	k.exec(`UPDATE coppice.workers SET expires_at = now() - interval '1 minute' * (100 - id)`) // the first is the longest silent

	got, err := k.Rescue(t.Context(), 100)
	require.True(t, store.Refused(err), err)
	require.ErrorContains(t, err, "dead_jobs_pkey")
	require.Equal(t, 2, got.DeadLettered)
	require.Equal(t, 1, got.Retried)
	require.Equal(t, 1, got.Workers, "the first still has a job")
	require.Equal(t, tree.Ready, k.job(other[0]).State)

	k.exec(`DELETE FROM coppice.dead_jobs WHERE id = $1`, int64(ids[1]))
	got, err = k.Rescue(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 1, got.DeadLettered)
	require.Equal(t, 1, got.Workers)
}

func TestAWorkerWithoutALeaseClaimsNothing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.insert(tree.New(task{}))
	w := k.worker()
	ask := func() *store.Claimed {
		got, err := k.Claim(t.Context(), store.ClaimRequest{WorkerID: w, Queue: tree.DefaultQueue, Limit: 1, WorkKinds: []string{"task"}, Promote: true})
		require.NoError(t, err)
		return got
	}
	k.exec(`UPDATE coppice.workers SET expires_at = now() - interval '1 second'`)
	got := ask()
	require.Empty(t, got.Jobs, "it is over")
	require.True(t, got.NoLease)
	_, err := k.Beat(t.Context(), w, time.Hour, false)
	require.NoError(t, err)
	got = ask()
	require.Len(t, got.Jobs, 1)
	require.False(t, got.NoLease)
	k.settle(w, completed(&got.Jobs[0]))
	require.NoError(t, k.Unregister(t.Context(), w))
	k.insert(tree.New(task{}))
	got = ask()
	require.Empty(t, got.Jobs, "its row is gone")
	require.True(t, got.NoLease)
}
