package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/testcheck"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

type chore struct{}

func (chore) Kind() string { return "chore" }

// plant inserts a tree: 0 root, 1 a branch with 2 and 3, of which 3 is due later, 4 a leaf.
func (w *world) plant() []tree.ID {
	w.t.Helper()
	st, err := store.New(w.Pool, w.Schema)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { testcheck.AssertInvariants(w.t, st) })
	chores := func(options ...tree.Option) *tree.Node { return tree.New(chore{}, options...) }
	plan, err := tree.NewPlan(chores().Add(chores().Add(chores(), chores(tree.Delay(time.Hour))), chores()))
	require.NoError(w.t, err)
	rows, err := st.Insert(w.t.Context(), plan)
	require.NoError(w.t, err)
	ids := make([]tree.ID, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	return ids
}

func TestCancelShowsACountAndAsksFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := w.plant()
	id := ids[0].String()
	dry := w.run("tree", "cancel", ids[2].String(), "--dry-run")
	require.Equal(t, "cancel tree "+id+": 5 jobs live: 0 running, 2 ready, 1 scheduled, 2 waiting; 0 of them held; nothing was done\n", dry.ok())
	w.run("tree", "cancel", id).fails(2, "nobody is here to confirm it: add --yes")
	w.terminal, w.answer = true, "n\n"
	w.run("tree", "cancel", id).fails(1, "nothing was done")
	w.terminal = false

	w.run("job", "cancel", ids[1].String(), "--yes").fails(2, "has 2 live children; to cancel them too, add --below")
	got := readJSON[steerJSON](w.run("job", "cancel", ids[1].String(), "--below", "--yes", "--json", "--actor", "ann", "--reason", "storm"))
	require.Equal(t, steerJSON{
		Action: "cancel", Job: ids[1], Tree: ids[0], Scope: store.ScopeBranch,
		Reached: reachJSON{Jobs: 3, Ready: 1, Scheduled: 1, Waiting: 1}, Changed: 3,
	}, got)
	shown := w.run("job", "show", ids[1].String()).ok()
	require.Regexp(t, `(?m)^by +ann$`, shown)
	require.Regexp(t, `(?m)^error +storm$`, shown)
	require.Equal(t, "2 of 2 jobs cancelled\n", w.run("tree", "cancel", id, "--yes").ok())
	w.run("tree", "cancel", id, "--yes").fails(1, "no job of tree "+id+" is live")
	w.run("job", "cancel", id, "--yes").fails(1, "has ended already: it is cancelled")
	w.run("job", "cancel", "0", "--yes").fails(2, "no job id")
	w.run("job", "cancel", "999999", "--yes").fails(1, "there is no job 999999")
}

func TestHoldsPrioritiesAndRunNowFromTheCommandLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := w.plant()
	id := ids[0].String()
	require.Equal(t, "5 of 5 jobs held\n", w.run("tree", "hold", id, "--reason", "look first").ok())
	require.Equal(t, "0 of 5 jobs held\n", w.run("tree", "hold", id).ok())
	require.Contains(t, w.run("job", "show", id).ok(), "held by an operator")
	require.Equal(t, "1 of 1 job released\n", w.run("job", "release", ids[4].String()).ok())
	require.Equal(t, "3 of 3 jobs released\n", w.run("job", "release", ids[1].String(), "--below").ok())
	require.Equal(t, "1 of 5 jobs due now\n", w.run("tree", "run-now", id).ok())
	require.Equal(t, "5 of 5 jobs with another priority now\n", w.run("tree", "priority", id, "--", "-10").ok())
	got := readJSON[steerJSON](w.run("job", "priority", ids[2].String(), "7", "--json"))
	require.Equal(t, 1, got.Changed)
	require.Equal(t, store.ScopeJob, got.Scope)
	w.run("job", "priority", ids[2].String(), "high").fails(2, `unreadable PRIORITY "high"`)
	w.run("job", "priority", ids[2].String(), "40000").fails(1, "priority 40000 is outside")
	w.run("job", "priority", ids[2].String()).fails(2, "PRIORITY")
	var n int
	require.NoError(t, w.Pool.QueryRow(t.Context(), fmt.Sprintf(
		`SELECT count(*) FROM %s.audit WHERE action IN ('hold', 'release', 'run_now', 'priority')`, w.Schema)).Scan(&n))
	require.Equal(t, 6, n, "one row an act that changed something")
}
