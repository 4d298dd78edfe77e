package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// expire ends the lease of a worker.
func (k *kit) expire(w tree.WorkerID) {
	k.t.Helper()
	k.exec(`UPDATE coppice.workers SET expires_at = now() - interval '1 second' WHERE id = $1`, int64(w))
}

func (k *kit) rescue(limit int) store.Rescued {
	k.t.Helper()
	got, err := k.Rescue(k.t.Context(), limit)
	require.NoError(k.t, err)
	return got
}

// TestAWorkerThatWasRescuedFromClaimsNothing has a worker that was frozen for longer than its lease: the first
// thing that it does when it goes on is to claim.
func TestAWorkerThatWasRescuedFromClaimsNothing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	k.insert(singles(3)...)
	k.claim(w, tree.DefaultQueue, 1)
	k.expire(w)
	require.Equal(t, store.Rescued{Workers: 1, Retried: 1, Woken: []string{tree.DefaultQueue}}, k.rescue(10))
	require.Empty(t, k.claim(w, tree.DefaultQueue, 2), "it has no lease")
	require.Equal(t, 3, k.number(`SELECT count(*) FROM coppice.jobs WHERE state = 'ready'`))
	require.Len(t, k.claim(k.worker(), tree.DefaultQueue, 3), 3)
}

// TestAClaimThatCommitsBehindARescueIsTakenBackByTheNext holds the claim open while the rescue looks for what the worker
// has.
func TestAClaimThatCommitsBehindARescueIsTakenBackByTheNext(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(singles(1)...)
	k.expire(w)
	commit := k.lock(`UPDATE coppice.jobs SET state = 'running', worker_id = $1, claim_seq = claim_seq + 1, attempt = 1`, int64(w))
	require.Equal(t, store.Rescued{Workers: 1}, k.rescue(10))
	commit()
	require.Equal(t, store.Rescued{Workers: 1, Retried: 1, Woken: []string{tree.DefaultQueue}}, k.rescue(10))
	row := k.job(ids[0])
	require.Equal(t, 1, row.Lost)
	require.Equal(t, tree.Ready, row.State)
}

// TestARescueAndTheSettlesOfTheSilentWorkerEndEachAttemptOnce lets the worker come back to life while several others take
// its jobs.
func TestARescueAndTheSettlesOfTheSilentWorkerEndEachAttemptOnce(t *testing.T) {
	t.Parallel()
	const rescuers = 3
	times := rounds(20)
	k := newKit(t)
	s, other := k.onPool(rescuers+2), k.worker()
	k.watchReadiness()
	for range times {
		w := k.worker()
		k.insert(append(pairs(6, tree.OnDead(tree.Proceed)), singles(5, tree.MaxAttempts(1))...)...)
		claims := k.claim(w, tree.DefaultQueue, 100)
		require.Len(t, claims, 17)
		k.expire(w)
		sides := [2][]store.Ending{}
		for i := range claims {
			e := completed(&claims[i])
			if i%3 == 0 {
				e = dead(&claims[i])
			}
			sides[i%2] = append(sides[i%2], e)
		}
		settled := [2]*store.Settled{}
		rescued := [rescuers]store.Rescued{}
		together(t, rescuers+2, func(i int) (err error) {
			if i < rescuers {
				rescued[i], err = s.Rescue(t.Context(), 100)
				return err
			}
			settled[i-rescuers], err = s.Settle(t.Context(), w, sides[i-rescuers])
			return err
		})
		taken := 0
		for _, r := range rescued {
			taken += r.Retried + r.DeadLettered
		}
		lost := len(settled[0].Lost) + len(settled[1].Lost)
		require.Equal(t, lost, taken, "what the worker lost, others have taken")
		for claims := k.claim(other, tree.DefaultQueue, 100); len(claims) > 0; claims = k.claim(other, tree.DefaultQueue, 100) {
			for i := range claims {
				k.settle(other, completed(&claims[i]))
			}
		}
		k.rescue(100)
	}
	require.Zero(t, k.number(`SELECT count(*) FROM coppice.jobs`))
	k.requireReadiedOnce(6 * times)
}
