package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

// script makes the watch's clock tick at once, doing a step before each tick.
func (w *world) script(steps ...func()) {
	w.after = func(time.Duration) <-chan time.Time {
		tick := make(chan time.Time, 1)
		if len(steps) == 0 {
			return tick // never again
		}
		step := steps[0]
		steps = steps[1:]
		step()
		tick <- time.Time{}
		return tick
	}
}

func (w *world) finish(state string) func() {
	return func() {
		w.exec(`DELETE FROM {s}.jobs; DELETE FROM {s}.dead_jobs`)
		w.put("history", row{"id": 1, "state": state, "round": 1})
	}
}

func TestTreeWatchPrintsChangesUntilTheTreeEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	nothing := func() {}
	w.script(nothing, func() { w.exec(`UPDATE {s}.jobs SET state = 'scheduled' WHERE id = 5`) }, nothing, w.finish("completed"))
	require.Equal(t, []string{
		`tree 1: 8 jobs: 2 dead, 1 running, 2 waiting, 1 ready, 2 completed`,
		`tree 1: 8 jobs: 2 dead, 1 running, 2 waiting, 1 scheduled, 2 completed`,
		`tree 1: 3 jobs: 3 completed`,
	}, lines(w.run("tree", "watch", "1").ok()))
}

func TestTreeWatchAnswersHowTheTreeEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	w.script(w.finish("cancelled"))
	got := w.run("tree", "watch", "1", "--json")
	require.Equal(t, exitFailed, got.code)
	require.Empty(t, got.err)
	objects := lines(got.out)
	require.Len(t, objects, 2)
	require.Equal(t, tree.Cancelled, parseJSON[pictureJSON](t, objects[1]).Job.State)

	w.run("tree", "watch", "1000").fails(exitFailed, "there is no job 1000")
}

func TestTreeWatchSeesATreeVanish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	w.script(func() { w.exec(`TRUNCATE {s}.jobs, {s}.dead_jobs, {s}.history`) })
	got := w.run("tree", "watch", "1")
	got.ok()
	require.Contains(t, got.err, "its history is not kept")
}

func TestTreeWatchRedrawsOnATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	w.terminal, w.columns = true, 200
	w.env["NO_COLOR"] = "1"
	w.script(func() {}, w.finish("completed"))
	drawings := strings.Split(w.run("tree", "watch", "1").ok(), "\x1b[10A\x1b[J") // ten lines up
	require.Len(t, drawings, 3)
	require.Contains(t, drawings[0], "7 stalled chapter")
	require.Contains(t, drawings[2], "1 completed")
}

func TestInterruptingAWatchLeavesTheTreeAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	w.after = func(time.Duration) <-chan time.Time {
		interrupt()
		return nil
	}
	got := w.runUntil(ctx, "tree", "watch", "1")
	require.Equal(t, exitInterrupted, got.code)
	require.Empty(t, got.err)
	require.Contains(t, w.run("tree", "show", "1").ok(), "8 jobs")
}
