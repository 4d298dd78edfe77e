package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
)

func TestQueuesCountEveryJobOnce(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	f.exec(`UPDATE {s}.queues SET history_retention = '0', dead_retention = '30 days', max_running = 5 WHERE name = 'q';
		UPDATE {s}.jobs SET run_at = now() - interval '10 minutes' WHERE id = 2;
		INSERT INTO {s}.dead_jobs (id, root_id, state, kind, queue, reason, args) VALUES (90, 90, 'dead', 'k', 'z', 'lost', '1')`)
	got, err := f.Queues(t.Context())
	require.NoError(t, err)
	require.Len(t, got, 4)
	require.Equal(t, "idle", got[0].Name)
	require.NotNil(t, got[0].PausedAt)
	require.Equal(t, "ann", got[0].PausedBy)
	require.Nil(t, got[0].HistoryRetention)
	require.Equal(t, store.QueueRow{Name: "later", Scheduled: 1}, got[1])
	require.Equal(t, store.QueueRow{Name: "z", Dead: 1}, got[3])

	q := got[2]
	require.InDelta(t, 10*time.Minute, q.OldestReady, float64(time.Minute))
	q.OldestReady = 0
	require.Equal(t, store.QueueRow{
		Name: "q", Ready: 3, Due: 2, Running: 4, Waiting: 6, Held: 1, Dead: 9, MaxRunning: 5,
		HistoryRetention: new(time.Duration(0)), DeadRetention: new(30 * 24 * time.Hour),
	}, q)
}

func TestWorkersShowTheirLeases(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	f.exec(`INSERT INTO {s}.workers (id, beat_at, expires_at, pid, stopping, name, host, queues, kinds) VALUES
		(8, now() - interval '2 minutes', now() - interval '1 minute', 2, true, 'gone', 'h', '{}', '{}'),
		(9, now(), now() + interval '1 minute', 3, true, 'leaving', 'h', '{}', '{}')`)
	got, err := f.Workers(t.Context())
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, store.LeaseHeld, got[0].Lease)
	require.EqualValues(t, 4, got[0].Running)
	require.Equal(t, []string{"q"}, got[0].Queues)
	require.Equal(t, 1, got[0].PID)
	require.Positive(t, got[0].ExpiresIn)
	require.Equal(t, store.LeaseOver, got[1].Lease)
	require.InDelta(t, -time.Minute, got[1].ExpiresIn, float64(30*time.Second))
	require.InDelta(t, 2*time.Minute, got[1].SilentFor, float64(30*time.Second))
	require.Equal(t, store.LeaseStopping, got[2].Lease)
}
