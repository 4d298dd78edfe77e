package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
)

func TestTallyCountsEveryRowOfATreeAndNoOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("jobs", row{"id": 1, "state": "waiting", "round": 1})
	f.put("jobs", row{"id": 2, "root_id": 1, "parent_id": 1})
	f.put("history", row{"id": 3, "root_id": 1, "parent_id": 1, "round": 1})
	f.put("history", row{"id": 4, "root_id": 1, "parent_id": 3})
	f.put("history", row{"id": 5, "root_id": 1, "parent_id": 3, "state": "cancelled"})
	f.put("dead_jobs", row{"id": 6, "root_id": 1, "parent_id": 3})
	f.put("dead_jobs", row{"id": 7, "root_id": 1, "parent_id": 3})
	f.put("history", row{"id": 8, "round": 1})
	got, err := f.TreeTally(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, store.Tally{Live: 2, Completed: 2, Cancelled: 1, Dead: 2, Finalizers: 1, FirstDead: 6}, got)
	require.EqualValues(t, 7, got.Jobs())
	got, err = f.TreeTally(t.Context(), 8)
	require.NoError(t, err)
	require.Equal(t, store.Tally{Completed: 1, Finalizers: 1}, got)
	got, err = f.TreeTally(t.Context(), 9)
	require.NoError(t, err)
	require.Zero(t, got)
}

func TestForgetQueueKeepsWhatIsInUse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, q := range []string{"empty", "live", "dead", "paused"} {
		f.exec(`INSERT INTO {s}.queues (name) VALUES ('` + q + `')`)
	}
	f.put("jobs", row{"id": 1, "queue": "live"})
	f.put("dead_jobs", row{"id": 2, "queue": "dead"})
	f.exec(`UPDATE {s}.queues SET paused_at = now() WHERE name = 'paused'`)
	for _, q := range []string{"empty", "live", "dead", "paused", "unknown"} {
		require.NoError(t, f.ForgetQueue(t.Context(), q))
	}
	queues, err := f.Queues(t.Context())
	require.NoError(t, err)
	names := []string{}
	for _, q := range queues {
		names = append(names, q.Name)
	}
	require.Equal(t, []string{"dead", "live", "paused"}, names)
}
