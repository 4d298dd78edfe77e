package store_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func TestChildrenAreListedFromAllTablesInOrder(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	got, next, err := f.Children(t.Context(), 1, 1, 0, 0)
	require.NoError(t, err)
	require.Zero(t, next)
	require.Equal(t, []store.ChildRow{
		{Place: store.PlaceLive, ID: 2, Kind: "k", State: tree.Ready, Queue: "q", MaxAttempts: 10},
		{Place: store.PlaceLive, ID: 3, Kind: "k", State: tree.Running, Queue: "q", Attempt: 1, MaxAttempts: 10},
		{Place: store.PlaceHistory, ID: 4, Kind: "k", State: tree.Completed, Queue: "q", ChildKey: "four", MaxAttempts: 10},
		{
			Place: store.PlaceDead, ID: 5, Kind: "k", State: tree.Dead, Queue: "q", MaxAttempts: 10,
			Reason: tree.ReasonFatal, LastError: "no such file",
		},
	}, got)

	got, _, err = f.Children(t.Context(), 10, 10, 0, 0)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, 1, got[0].Pending)
	require.Equal(t, 2, got[0].Round)
}

func TestChildrenArePagedWithoutGapOrRepeat(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`INSERT INTO {s}.jobs (id, root_id, parent_id, state, kind, queue, args)
			SELECT i, 1, 1, 'ready', 'k', 'q', '1' FROM generate_series(2, 40) i WHERE i % 3 = 0;
		INSERT INTO {s}.dead_jobs (id, root_id, parent_id, state, kind, queue, reason, args)
			SELECT i, 1, 1, 'dead', 'k', 'q', 'fatal', '1' FROM generate_series(2, 40) i WHERE i % 3 = 1;
		INSERT INTO {s}.history (id, root_id, parent_id, state, kind, queue, args)
			SELECT i, 1, 1, 'completed', 'k', 'q', '1' FROM generate_series(2, 40) i WHERE i % 3 = 2`)
	var ids, want []tree.ID
	var after tree.ID
	for {
		got, next, err := f.Children(t.Context(), 1, 1, after, 13)
		require.NoError(t, err)
		require.Len(t, got, 13)
		for _, c := range got {
			ids = append(ids, c.ID)
		}
		if after = next; after == 0 {
			break
		}
	}
	for i := tree.ID(2); i <= 40; i++ {
		want = append(want, i)
	}
	require.Equal(t, want, ids)
}

func TestChildrenShowTheLastErrorOfTheirPresentLife(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	f.exec(`INSERT INTO {s}.job_errors (job_id, root_id, at, attempt, round, outcome, error) VALUES
		(3, 1, now(), 1, 0, 'error', 'older'), (3, 1, now() + interval '1 second', 1, 0, 'error', repeat('é', 600)),
		(12, 10, now(), 1, 0, 'error', 'of the life before the restore')`)
	f.exec(`UPDATE {s}.jobs SET age_from = now() + interval '1 minute' WHERE id = 12`)
	got, _, err := f.Children(t.Context(), 1, 1, 2, 1)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("é", 500), got[0].LastError)
	got, _, err = f.Children(t.Context(), 10, 11, 0, 1)
	require.NoError(t, err)
	require.Empty(t, got[0].LastError)
}
