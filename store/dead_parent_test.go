package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// dieSQL copies a job to the dead-letter queue, with what the tests look at.
const dieSQL = `
	INSERT INTO coppice.dead_jobs (id, root_id, parent_id, queue, kind, args, round, pending, completed, dead, cancelled, state, reason)
	SELECT id, root_id, parent_id, queue, kind, args, round, pending, completed, dead, cancelled, 'dead', 'fatal'
	FROM coppice.jobs WHERE id = $1`

// die moves a waiting parent to the dead-letter queue while its children live.
func (k *kit) die(id tree.ID) {
	k.t.Helper()
	tx, err := k.db.Pool.Begin(k.t.Context())
	require.NoError(k.t, err)
	for _, sql := range []string{dieSQL, `DELETE FROM coppice.jobs WHERE id = $1`} {
		_, err = tx.Exec(k.t.Context(), sql, int64(id))
		require.NoError(k.t, err)
	}
	require.NoError(k.t, tx.Commit(k.t.Context()))
}

// counters are pending, completed, dead and cancelled.
func counters(row *store.JobRow) [4]int {
	return [4]int{row.Pending, row.Completed, row.Dead, row.Cancelled}
}

func TestADeadParentCountsTheChildrenThatLivedOn(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	root := tree.New(task{}, tree.Queue("parents"))
	for range 6 {
		root.Add(tree.New(task{}))
	}
	ids := k.insert(root)
	claims := k.claim(w, tree.DefaultQueue, 10)
	require.Len(t, claims, 6)
	k.settle(w, completed(&claims[0]))
	k.die(ids[0])
	k.settle(w, completed(&claims[1]), failed(&claims[2]))
	require.Equal(t, [4]int{4, 2, 0, 0}, counters(k.job(ids[0])))
	k.settle(w, dead(&claims[3]), ending(&claims[4], store.EndCancelled))
	require.Equal(t, [4]int{2, 2, 1, 1}, counters(k.job(ids[0])))
	again := k.claim(w, tree.DefaultQueue, 10)
	require.Len(t, again, 1)
	k.settle(w, completed(&again[0]), completed(&claims[5]))
	row := k.job(ids[0])
	require.Equal(t, [4]int{0, 4, 1, 1}, counters(row))
	require.Equal(t, tree.Dead, row.State, "a dead parent wakes for nobody")
	require.Empty(t, k.claim(w, "parents", 10))
	kept, err := k.Results(t.Context(), ids[0], 0, 0, 10)
	require.NoError(t, err)
	require.Len(t, kept, 4, "results are kept for a restore")
}

func TestChildrenOfADeadParentSettleAtOnce(t *testing.T) {
	t.Parallel()
	const parents, children = 30, 8
	k := newKit(t)
	s, w := k.onPool(children), k.worker()
	for range parents {
		root := tree.New(task{}, tree.Queue("parents"))
		for range children {
			root.Add(tree.New(task{}))
		}
		ids := k.insert(root)
		claims := k.claim(w, tree.DefaultQueue, children)
		require.Len(t, claims, children)
		k.die(ids[0])
		sides := make([]store.Ending, children)
		for i := range sides {
			sides[i] = completed(&claims[i])
			if i%2 == 1 {
				sides[i] = dead(&claims[i])
			}
		}
		require.Zero(t, race(t, s, w, sides...))
		require.Equal(t, [4]int{0, children / 2, children / 2, 0}, counters(k.job(ids[0])))
	}
}

// TestASettleFindsAParentThatDiesMeanwhile has the settle wait for a parent's live row, which is a dead one when it goes on.
func TestASettleFindsAParentThatDiesMeanwhile(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(tree.New(task{}, tree.Queue("parents")).Add(tree.New(task{}), tree.New(task{})))
	claims := k.claim(w, tree.DefaultQueue, 10)
	require.Len(t, claims, 2)
	tx, err := k.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), dieSQL, int64(ids[0]))
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `DELETE FROM coppice.jobs WHERE id = $1`, int64(ids[0]))
	require.NoError(t, err)
	got := k.behind(func() { require.NoError(t, tx.Commit(t.Context())) }, w, completed(&claims[0]), dead(&claims[1]))
	require.Empty(t, got.Lost)
	require.Equal(t, [4]int{0, 1, 1, 0}, counters(k.job(ids[0])))
}
