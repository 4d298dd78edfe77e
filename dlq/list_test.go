package dlq_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/dlq"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// massacre puts one tree in two queues of which n died in one transaction: the root 1 and its children.
func (f *fixture) massacre(n int) {
	f.t.Helper()
	f.exec(`INSERT INTO coppice.dead_jobs (id, root_id, parent_id, state, kind, queue, reason, round, dead, args)
		SELECT i, 1, CASE WHEN i > 1 THEN 1 END, 'dead', 'k', CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END, 'lost',
			(i = 1)::int, CASE WHEN i = 1 THEN $1 - 1 ELSE 0 END, '1'
		FROM generate_series(1, $1::int) i`, n)
}

func TestTenThousandThatDiedTogetherAreVisitedOnceEach(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.massacre(10_000)
	var all, even []tree.ID
	for id := tree.ID(1); id <= 10_000; id++ {
		all = append(all, id)
		if id%2 == 0 {
			even = append(even, id)
		}
	}
	for name, c := range map[string]struct {
		filter dlq.Filter
		want   []tree.ID
	}{
		"all":        {dlq.Filter{}, all},
		"of a queue": {dlq.Filter{Queue: "even"}, even},
		"of a tree":  {dlq.Filter{RootID: 1}, all},
		"of both":    {dlq.Filter{RootID: 1, Queue: "even"}, even},
	} {
		require.Equal(t, c.want, f.walk(c.filter, dlq.Page{Limit: 777, OldestFirst: true}), name)
		newest := f.walk(c.filter, dlq.Page{Limit: 1000})
		slices.Reverse(newest)
		require.Equal(t, c.want, newest, name)
	}
}

func TestPagesGoOnWhereAnEntryHasGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for id := 1; id <= 6; id++ {
		f.put(row{"id": id, "failed_at": time.Date(2026, 1, 1, 0, id/3, 0, 0, time.UTC)})
	}
	got, next, err := f.List(t.Context(), dlq.Filter{}, dlq.Page{Limit: 3})
	require.NoError(t, err)
	require.Equal(t, tree.ID(4), got[2].ID)
	f.exec(`DELETE FROM coppice.dead_jobs WHERE id IN (2, 4)`)
	f.put(row{"id": 7})
	got, next, err = f.List(t.Context(), dlq.Filter{}, dlq.Page{Limit: 2, Cursor: next})
	require.NoError(t, err)
	require.Equal(t, []tree.ID{3, 1}, []tree.ID{got[0].ID, got[1].ID})
	require.Empty(t, next)
}

func TestEntriesShowWhatDiedAndWhy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	f.put(row{"id": 1, "dead": 1, "round": 1})
	f.put(row{
		"id": 2, "root_id": 1, "parent_id": 1, "kind": "k2", "queue": "q2", "reason": "lost", "error": "gone",
		"created_at": at, "attempt": 3, "max_attempts": 4, "lost": 2, "worker_id": 8, "dropped_key": "d", "completed": 5,
		"cancelled": 6, "removed": 7, "round": 1, "tags": []string{"a", "b"}, "kept": true,
	})
	f.exec(`UPDATE coppice.dead_jobs SET failed_at = now() - interval '3 hours' WHERE id = 2`)
	got, next, err := f.List(t.Context(), dlq.Filter{}, dlq.Page{})
	require.NoError(t, err)
	require.Empty(t, next)
	require.Len(t, got, 2)
	e := got[1]
	require.InDelta(t, 3*time.Hour, e.DeadFor, float64(time.Minute))
	require.Equal(t, dlq.Entry{
		ID: 2, RootID: 1, ParentID: 1, Kind: "k2", Queue: "q2", Reason: tree.ReasonLost, Error: "gone", FailedAt: e.FailedAt,
		DeadFor: e.DeadFor, Attempt: 3, MaxAttempts: 4, Lost: 2, WorkerID: 8, CreatedAt: at.In(e.CreatedAt.Location()), DroppedKey: "d",
		Counters: store.Counters{Completed: 5, Cancelled: 6, Removed: 7}, Tags: []string{"a", "b"}, Kept: true,
	}, e)
	require.Equal(t, dlq.Entry{
		ID: 1, RootID: 1, Kind: "k", Queue: "q", Reason: tree.ReasonFatal, FailedAt: got[0].FailedAt, DeadFor: got[0].DeadFor,
		MaxAttempts: 10, CreatedAt: got[0].CreatedAt, Counters: store.Counters{Dead: 1},
	}, got[0], "what was never set is zero")
}

func TestThePageIsClamped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.massacre(1200)
	for limit, want := range map[int]int{-1: dlq.DefaultPage, 0: dlq.DefaultPage, 1: 1, 1000: 1000, 1 << 40: dlq.MaxPage} {
		got, next, err := f.List(t.Context(), dlq.Filter{}, dlq.Page{Limit: limit})
		require.NoError(t, err)
		require.Len(t, got, want)
		require.NotEmpty(t, next)
	}
}

func TestPagesStayWithinTheFiltersTimes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	for id := 1; id <= 20; id++ {
		f.put(row{"id": id, "failed_at": at(id / 2)}) // two a minute
	}
	for _, queue := range []string{"", "q"} {
		filter := dlq.Filter{Queue: queue, FailedAfter: at(2), FailedBefore: at(6)}
		require.Equal(t, []tree.ID{4, 5, 6, 7, 8, 9, 10, 11}, f.walk(filter, dlq.Page{Limit: 3, OldestFirst: true}))
		require.Equal(t, []tree.ID{11, 10, 9, 8, 7, 6, 5, 4}, f.walk(filter, dlq.Page{Limit: 3}))

		// A cursor from outside of the times does not widen them.
		for _, oldest := range []bool{true, false} {
			_, next, err := f.List(t.Context(), dlq.Filter{}, dlq.Page{Limit: 1, OldestFirst: oldest})
			require.NoError(t, err)
			require.Len(t, f.walk(filter, dlq.Page{Limit: 3, OldestFirst: oldest, Cursor: next}), 8)
		}
	}
}
