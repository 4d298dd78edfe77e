package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func roots(t *testing.T, f *fixture, filter store.TreeFilter) (ids []tree.ID, next tree.ID) {
	t.Helper()
	rows, next, err := f.Trees(t.Context(), filter)
	require.NoError(t, err)
	for _, r := range rows {
		ids = append(ids, r.RootID)
	}
	return ids, next
}

func TestTreesAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	got, next := roots(t, f, store.TreeFilter{})
	require.Equal(t, []tree.ID{65, 60, 50, 45, 40, 24, 22, 20, 10, 1}, got)
	require.Zero(t, next)
	got, _ = roots(t, f, store.TreeFilter{Finished: true})
	require.Equal(t, []tree.ID{70, 65, 60, 50, 45, 40, 24, 22, 20, 10, 1}, got)
}

func TestTreesArePagedWithoutGapOrRepeat(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	filter := store.TreeFilter{Finished: true, Limit: 4}
	got, next := roots(t, f, filter)
	require.Equal(t, []tree.ID{70, 65, 60, 50}, got)
	require.Equal(t, tree.ID(50), next)
	filter.After = next
	got, filter.After = roots(t, f, filter)
	require.Equal(t, []tree.ID{45, 40, 24, 22}, got)
	got, next = roots(t, f, filter)
	require.Equal(t, []tree.ID{20, 10, 1}, got)
	require.Zero(t, next)
}

func TestTreesAreFilteredByQueueAndKindOfTheirRoot(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	f.exec(`UPDATE {s}.jobs SET queue = 'media' WHERE id IN (10, 20); UPDATE {s}.jobs SET kind = 'album' WHERE id IN (20, 22)`)
	got, _ := roots(t, f, store.TreeFilter{Queue: "media"})
	require.Equal(t, []tree.ID{20, 10}, got)
	got, _ = roots(t, f, store.TreeFilter{Kind: "album"})
	require.Equal(t, []tree.ID{22, 20}, got)
	got, _ = roots(t, f, store.TreeFilter{Kind: "album", Queue: "media", Finished: true})
	require.Equal(t, []tree.ID{20}, got)
	got, _ = roots(t, f, store.TreeFilter{Queue: "q' OR true --"})
	require.Empty(t, got)
}

func TestStalledTreesAreThoseWithAStalledFinalizerAnywhere(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	f.exec(`UPDATE {s}.jobs SET stalled_at = now() - interval '2 hours' WHERE id = 11;
		UPDATE {s}.jobs SET stalled_at = now() WHERE id = 20`) // ready again
	got, _ := roots(t, f, store.TreeFilter{StalledOnly: true})
	require.Equal(t, []tree.ID{10, 1}, got)
	got, next := roots(t, f, store.TreeFilter{StalledOnly: true, Limit: 1})
	require.Equal(t, []tree.ID{10}, got)
	got, _ = roots(t, f, store.TreeFilter{StalledOnly: true, After: next})
	require.Equal(t, []tree.ID{1}, got)
	got, _ = roots(t, f, store.TreeFilter{StalledOnly: true, Kind: "other"})
	require.Empty(t, got)

	rows, _, err := f.Trees(t.Context(), store.TreeFilter{})
	require.NoError(t, err)
	stalledFor := map[tree.ID]time.Duration{}
	for _, r := range rows {
		if r.StalledAt != nil {
			stalledFor[r.RootID] = r.StalledFor.Round(time.Hour)
		}
	}
	require.Equal(t, map[tree.ID]time.Duration{10: 2 * time.Hour, 1: time.Hour}, stalledFor)
}

func TestTreesShowTheirRoots(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	rows, _, err := f.Trees(t.Context(), store.TreeFilter{Finished: true})
	require.NoError(t, err)
	byRoot := map[tree.ID]store.TreeRow{}
	for _, r := range rows {
		require.NotZero(t, r.CreatedAt)
		require.GreaterOrEqual(t, r.Age, time.Duration(0))
		require.Equal(t, r.Place != store.PlaceLive, r.EndedAt != nil)
		r.CreatedAt, r.Age, r.EndedAt, r.StalledAt, r.StalledFor = time.Time{}, 0, nil, nil, 0
		byRoot[r.RootID] = r
	}
	require.Equal(t, store.TreeRow{
		Place: store.PlaceLive, RootID: 1, Kind: "k", Queue: "q", State: tree.Waiting, Round: 1,
		Sealed: true, Counters: store.Counters{Pending: 2, Completed: 1, Dead: 1},
		StalledBy: 5, StalledReason: tree.ReasonFatal,
	}, byRoot[1])
	require.Equal(t, store.TreeRow{
		Place: store.PlaceDead, RootID: 40, Kind: "k", Queue: "q", State: tree.Dead, Round: 1,
		Sealed: true, Reason: tree.ReasonFatal, Counters: store.Counters{Completed: 1, Dead: 1},
	}, byRoot[40])
	require.Equal(t, store.TreeRow{
		Place: store.PlaceHistory, RootID: 70, Kind: "k", Queue: "q", State: tree.Completed,
		Round: 1, Sealed: true, Counters: store.Counters{Dead: 1},
	}, byRoot[70])
	require.Equal(t, "cancelled", byRoot[60].Closing)
	require.False(t, byRoot[50].Sealed)
}

func TestTreeCountsOfOneLevelIncludeWhatTheHistoryForgot(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	f.exec(`DELETE FROM {s}.history WHERE id = 4`)
	got, err := f.TreeCounts(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, store.TreeCounts{States: map[tree.State]int64{
		tree.Waiting: 1, tree.Ready: 1, tree.Running: 1, tree.Completed: 1, tree.Dead: 1,
	}}, got)
}

func TestTreeCountsOfSeveralLevelsAreCounted(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	f.put("dead_jobs", row{"id": 13, "root_id": 10, "parent_id": 11})
	f.put("history", row{"id": 14, "root_id": 10, "parent_id": 10, "state": "cancelled"})
	f.put("history", row{"id": 15, "root_id": 10, "parent_id": 11})
	got, err := f.TreeCounts(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, store.TreeCounts{States: map[tree.State]int64{
		tree.Waiting: 2, tree.Scheduled: 1, tree.Dead: 1, tree.Cancelled: 1, tree.Completed: 1,
	}}, got)
}

func TestTreeCountsOfAFinishedTreeAreThoseOfTheTables(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	got, err := f.TreeCounts(t.Context(), 70)
	require.NoError(t, err)
	require.Equal(t, store.TreeCounts{States: map[tree.State]int64{tree.Completed: 1, tree.Dead: 1}}, got)
	_, err = f.TreeCounts(t.Context(), 7000)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestTreeCountsSayWhenTheyGaveUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("jobs", row{"id": 1, "state": "waiting", "round": 1, "pending": store.TreeCountCap + 1})
	f.exec(`INSERT INTO {s}.jobs (id, root_id, parent_id, state, kind, queue, args)
		SELECT i, 1, 1, 'ready', 'k', 'q', '1' FROM generate_series(2, 100001) i`)
	got, err := f.TreeCounts(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, got.More)
	require.EqualValues(t, store.TreeCountCap, got.States[tree.Ready])
	f.put("jobs", row{"id": 100002, "root_id": 1, "parent_id": 1})
	got, err = f.TreeCounts(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, got.More)
}
