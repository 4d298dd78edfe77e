package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

func TestNotableChildrenComeInTheOrderOfWhatAPersonLooksFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	child := func(id int, more row) row {
		all := row{"id": id, "root_id": 1, "parent_id": 1}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	f.exec(`INSERT INTO {s}.workers (id, expires_at, pid, name, host, queues, kinds)
		VALUES (7, now() + interval '1 minute', 1, 'w', 'h', '{q}', '{k}')`)
	f.put("jobs", row{"id": 1, "state": "waiting", "round": 1, "pending": 7, "completed": 1, "dead": 1})
	f.put("history", child(2, nil))
	f.put("jobs", child(3, row{"state": "scheduled"}))
	f.put("jobs", child(4, nil))
	f.put("jobs", child(5, row{"attempt": 1}))
	f.put("jobs", child(6, row{"state": "waiting", "round": 1, "pending": 1}))
	f.put("jobs", row{"id": 20, "root_id": 1, "parent_id": 6})
	f.put("jobs", child(7, row{"state": "running", "worker_id": worker, "attempt": 1}))
	f.put("jobs", child(8, row{"state": "waiting", "round": 1, "dead": 1, "stalled_at": "now"}))
	f.put("dead_jobs", row{"id": 21, "root_id": 1, "parent_id": 8})
	f.put("dead_jobs", child(9, row{"error": "no such file"}))
	f.put("jobs", child(10, nil))
	f.exec(`INSERT INTO {s}.job_errors (job_id, root_id, attempt, round, outcome, error) VALUES (5, 1, 1, 0, 'error', 'first try')`)

	ids := func(limit int) (ids []tree.ID) {
		kids, err := f.NotableChildren(t.Context(), 1, 1, limit)
		require.NoError(t, err)
		for _, k := range kids {
			ids = append(ids, k.ID)
			require.Equal(t, k.ID == 8, k.Stalled)
		}
		return ids
	}
	require.Equal(t, []tree.ID{9, 8, 7, 6, 5, 4, 10, 3, 2}, ids(0))
	require.Equal(t, []tree.ID{9, 8, 7}, ids(3))

	kids, err := f.NotableChildren(t.Context(), 1, 1, 5)
	require.NoError(t, err)
	require.Equal(t, "no such file", kids[0].LastError)
	require.Equal(t, "first try", kids[4].LastError)

	states, err := f.LiveStates(t.Context(), 1, 1, 1_000)
	require.NoError(t, err)
	require.Equal(t, map[tree.State]int64{tree.Scheduled: 1, tree.Ready: 3, tree.Running: 1, tree.Waiting: 2}, states)
}
