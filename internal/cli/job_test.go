package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

func TestJobShowTellsTheStoryOfAJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	running := w.run("job", "show", "6").ok()
	require.Regexp(t, `(?m)^state +running for \S+$`, running)
	require.Regexp(t, `(?m)^attempts +2 of 10$`, running)
	require.Regexp(t, `(?m)^key +6.png$`, running)
	require.Regexp(t, `(?m)^attempt 1, \S+ ago: panic, worker 9\n  panic: nil map\n  \(there is a stack: --stacks\)$`, running)
	require.Contains(t, w.run("job", "show", "6", "--stacks").ok(), "goroutine 1\n      main.go:3")
	require.NotContains(t, w.run("job", "show", "6", "--failures", "0").ok(), "panic")

	dead := w.run("job", "show", "4").ok()
	require.Regexp(t, `(?m)^reason +attempts_spent$`, dead)
	require.NotContains(t, dead, "\x1b", "an error cannot repaint the terminal")
	require.Regexp(t, `(?m)^state +waiting, stalled for `, w.run("job", "show", "7").ok())
	require.Regexp(t, `(?m)^children +4 of 7 settled, 1 dead$`, w.run("job", "show", "1").ok())
	w.run("job", "show", "999").fails(exitFailed, "there is no job 999: the id is wrong, or it has ended")
}

func TestJobShowAnswersInJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	job := readJSON[jobJSON](w.run("job", "show", "6", "--json"))
	require.Equal(t, tree.Running, job.State)
	require.Equal(t, "panic: nil map", job.Failures[0].Error)
	require.JSONEq(t, `{"album":7}`, string(readJSON[jobJSON](w.run("job", "show", "1", "--json")).Args))
	require.Contains(t, w.run("job", "show", "2", "--json").ok(), `"failures": []`)
}
