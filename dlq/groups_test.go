package dlq_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/dlq"
	"github.com/coppicehq/coppice/tree"
)

func TestGroupsCountByQueueKindAndReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(row{"id": 1})
	f.put(row{"id": 2})
	f.put(row{"id": 3})
	f.put(row{"id": 4, "reason": "lost"})
	f.put(row{"id": 5, "kind": "a"})
	f.put(row{"id": 6, "queue": "mail"})
	f.exec(`UPDATE coppice.dead_jobs SET failed_at = now() - id * interval '1 hour'`)
	got, more, err := f.Groups(t.Context(), dlq.Filter{})
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, got, 4)
	require.Equal(t, 2*time.Hour, got[0].Last.Sub(got[0].First))
	require.InDelta(t, time.Hour, got[0].LastAge, float64(time.Minute))
	require.InDelta(t, 3*time.Hour, got[0].FirstAge, float64(time.Minute))
	for i := range got {
		got[i].First, got[i].Last, got[i].FirstAge, got[i].LastAge = time.Time{}, time.Time{}, 0, 0
	}
	require.Equal(t, []dlq.Group{
		{Queue: "q", Kind: "k", Reason: tree.ReasonFatal, Count: 3, Sample: 3},
		{Queue: "mail", Kind: "k", Reason: tree.ReasonFatal, Count: 1, Sample: 6},
		{Queue: "q", Kind: "a", Reason: tree.ReasonFatal, Count: 1, Sample: 5},
		{Queue: "q", Kind: "k", Reason: tree.ReasonLost, Count: 1, Sample: 4},
	}, got)
}

func TestGroupsSayWhenThereAreMore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`INSERT INTO coppice.dead_jobs (id, root_id, state, kind, queue, reason, args)
		SELECT i, i, 'dead', 'k' || i, 'q', 'fatal', '1' FROM generate_series(1, $1::int) i`, dlq.MaxGroups)
	got, more, err := f.Groups(t.Context(), dlq.Filter{})
	require.NoError(t, err)
	require.Len(t, got, dlq.MaxGroups)
	require.False(t, more)
	f.put(row{"id": dlq.MaxGroups + 1})
	got, more, err = f.Groups(t.Context(), dlq.Filter{})
	require.NoError(t, err)
	require.Len(t, got, dlq.MaxGroups)
	require.True(t, more)
}
