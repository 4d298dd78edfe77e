package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQueueListShowsWhatIsInQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Contains(t, w.run("queue", "list").err, "there are no queues yet")
	require.Equal(t, "[]\n", w.run("queue", "list", "--json").ok())
	w.album()
	w.exec(`INSERT INTO {s}.queues (name, paused_at, paused_by, max_running, history_retention, dead_retention)
		VALUES ('idle', '2026-01-02 03:04:05Z', 'ann', 10, '0', '30 days')`)
	got := lines(w.run("queue", "list").ok())
	require.Len(t, got, 3)
	require.Regexp(t, `^QUEUE +READY +OLDEST +SCHEDULED +RUNNING +WAITING +HELD +DEAD +HISTORY +DLQ +PAUSED$`, got[0])
	require.Regexp(t, `^idle +0 +- +0 +0 / 10 +0 +0 +0 +none +30d00h +2026-01-02 03:04:05 UTC by ann$`, got[1])
	require.Regexp(t, `^media +1 +\S+ +0 +1 +2 +0 +2 +7d00h +ever$`, got[2])

	queues := readJSON[[]queueJSON](w.run("queue", "list", "--json"))
	require.Equal(t, "media", queues[1].Name)
	require.Nil(t, queues[1].DeadSeconds)
	require.InDelta(t, 7*24*3600, queues[1].HistorySeconds, 0)
}

func TestQueuePauseAndResumeSayWhatTheyDidAndKeepWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	require.Regexp(t, `^queue media paused; 1 ready, 1 running$`, lines(w.run("queue", "pause", "media", "--actor", "ann", "--reason", "storm").ok())[0])
	require.Regexp(t, `UTC by ann$`, lines(w.run("queue", "list").ok())[1])
	again := readJSON[switchJSON](w.run("queue", "pause", "media", "--json"))
	require.Equal(t, switchJSON{Queue: "media", Paused: true, Ready: 1, Running: 1}, again)
	require.Contains(t, w.run("queue", "resume", "media", "--actor", "bob").ok(), "queue media resumed")
	require.Contains(t, w.run("queue", "resume", "media").ok(), "queue media was not paused")
	require.Contains(t, w.run("queue", "resume", "unheard of").ok(), "was not paused; 0 ready")
	require.Equal(t, 1, w.run("queue", "pause", " ").code)
	require.Equal(t, 2, w.run("queue", "pause").code)
	var audit string
	require.NoError(t, w.Pool.QueryRow(t.Context(), `SELECT string_agg(actor || ' ' || coalesce(reason, '-') || ' ' || action, ', ' ORDER BY id)
		FROM `+w.Schema+`.audit`).Scan(&audit))
	require.Equal(t, "ann storm queue_pause, bob - queue_resume", audit)
}
