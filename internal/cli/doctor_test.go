package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func TestDoctorFindsDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	require.Regexp(t, `^healthy: all \d+ invariants hold\n$`, w.run("doctor").ok())
	require.True(t, readJSON[diagnosis](w.run("doctor", "--json", "--history")).Healthy)

	w.exec(`UPDATE {s}.jobs SET pending = 5 WHERE id = 1`)
	got := w.run("doctor")
	got.fails(exitFailed, "")
	require.Empty(t, got.err, "the answer is on stdout")
	require.Contains(t, got.out, "damaged: 1 of ")
	require.Contains(t, got.out, "job 1 of tree 1: pending is 5, live children are 3")
	got = w.run("doctor", "--json")
	require.Equal(t, exitFailed, got.code)
	d := parseJSON[diagnosis](t, got.out)
	require.False(t, d.Healthy)
	require.Equal(t, store.PendingCount, d.Findings[0].Invariant)
	require.Equal(t, tree.ID(1), d.Findings[0].Rows[0].Job)
}

func TestDoctorNotesWhatKeepsWorkFromBeingDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	w.exec(`UPDATE {s}.workers SET expires_at = now() - interval '1 minute';
		INSERT INTO {s}.queues (name, paused_at) VALUES ('idle', now())`)
	w.put("jobs", row{"id": 50, "queue": "idle"})
	out := w.run("doctor").ok()
	require.Regexp(t, `note: worker 9 \(w, process 1 on h\) has been silent for \S+; its 1 running job will be taken back`, out)
	require.Contains(t, out, `note: queue "media" has 1 ready job and no worker`)
	require.Contains(t, out, `note: queue "idle" is paused with 1 ready job`)
}
