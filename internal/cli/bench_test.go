package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/bench"
)

// schemas lists those of the database that are not PostgreSQL's.
func (w *world) schemas() (names []string) {
	w.t.Helper()
	require.NoError(w.t, w.Pool.QueryRow(w.t.Context(),
		`SELECT array_agg(nspname ORDER BY nspname) FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema|public)'`).Scan(&names))
	return names
}

func TestBenchMeasuresBothWorkloadsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.schemas()
	flat := readJSON[benchJSON](w.run("bench", "flat", "--jobs", "2000", "--max-running", "10", "--no-history", "--json"))
	require.Equal(t, "flat", flat.Workload)
	require.Equal(t, 2000, flat.Jobs)
	require.InDelta(t, 2000/flat.Seconds, flat.JobsPerSecond, 1)
	require.Equal(t, 10, flat.MaxRunning)
	require.False(t, flat.History)

	trees := readJSON[benchJSON](w.run("bench", "trees", "--jobs", "2000", "--children", "20", "--json"))
	require.Equal(t, "trees", trees.Workload)
	require.Equal(t, 96, trees.Trees)
	require.Equal(t, 96*21, trees.Jobs)
	require.EqualValues(t, 96*20, trees.ResultsRead)
	require.True(t, trees.History)
	require.Equal(t, before, w.schemas())
	require.Equal(t, "[]\n", w.run("queue", "list", "--json").ok(), "nothing is left in the user's schema")
	w.AssertNoDeadlocks(t)
}

func TestBenchTellsTheSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := w.run("bench", "flat", "--jobs", "100", "--json").ok()
	var keys map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &keys))
	for _, k := range []string{
		"jobs", "seconds", "jobs_per_second", "insert_seconds", "children", "max_running", "history",
		"postgresql", "synchronous_commit", "fsync", "shared_buffers", "gomaxprocs", "go",
	} {
		require.Contains(t, keys, k)
		require.NotEqual(t, any(""), keys[k], k) // zero is an answer, nothing is none
	}
	w.terminal, w.columns = true, 80
	got := w.run("bench", "trees", "--jobs", "100", "--children", "1000")
	require.Contains(t, got.ok(), "1,001 jobs in 1 tree of 1,000 children, 1,000 results read; each ran once")
	require.Contains(t, got.err, "work   done [1,001 of 1,001 in ")
}

func TestBenchRefusesNonsense(t *testing.T) {
	t.Parallel()
	for words, says := range map[string]string{
		"bench flat --jobs 0":             "0 is outside 1 to 10,000,000; 100000 is a good start",
		"bench flat --jobs -5":            "-5 is outside 1",
		"bench trees --jobs 10000001":     "10000001 is outside 1",
		"bench flat --max-running 0":      "--max-running: 0 is outside 1 to 10,000",
		"bench trees --children 0":        `for jobs without children there is "coppice bench flat"`,
		"bench trees --children 100001":   "outside 1 to 100,000",
		"bench flat --children 3":         "unknown flag: --children",
		"bench --jobs 5":                  "unknown flag: --jobs",
		"bench frobnicate":                `unknown command "frobnicate"`,
		"bench flat --jobs 1000000000000": "outside 1 to 10,000,000",
	} {
		newShell(t).run(strings.Fields(words)...).fails(exitUsage, says)
	}
}

func TestBenchInterruptedDropsItsSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.schemas()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr := &interrupter{words: "work", interrupt: cancel}
	app := &App{
		In: strings.NewReader(""), Out: &strings.Builder{}, Err: stderr, Env: func(name string) string { return w.env[name] },
		ErrTerminal: true,
	}
	require.Equal(t, exitInterrupted, app.Run(ctx, []string{"bench", "flat", "--jobs", "20000"}))
	require.Contains(t, stderr.String(), "interrupted: nothing was measured, and nothing is left in the database")
	require.Equal(t, before, w.schemas())
}

func TestBenchLeavesAForeignSchemaAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("CREATE SCHEMA " + bench.Schema)
	w.run("bench", "flat", "--jobs", "10").fails(exitFailed, "was not made by a bench")
	require.Contains(t, w.schemas(), bench.Schema)

	w.exec(fmt.Sprintf("COMMENT ON SCHEMA %s IS 'made by coppice bench, which drops it when it ends'", bench.Schema))
	w.run("bench", "flat", "--jobs", "10").ok() // what a killed one left
	require.NotContains(t, w.schemas(), bench.Schema)
}

func TestOneBenchAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn, err := w.Pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), "SELECT pg_advisory_lock(hashtextextended($1, 0))", bench.Schema)
	require.NoError(t, err)
	w.run("bench", "flat", "--jobs", "10").fails(exitFailed, "another bench runs in this database")
	_, err = conn.Exec(t.Context(), "SELECT pg_advisory_unlock_all()")
	require.NoError(t, err)
}

func TestBenchSaysWhichRightIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Pool.Exec(t.Context(), fmt.Sprintf("REVOKE CREATE ON DATABASE %q FROM CURRENT_USER", w.Pool.Config().ConnConfig.Database))
	require.NoError(t, err)
	w.run("bench", "flat", "--jobs", "10").fails(exitFailed, "GRANT CREATE ON DATABASE")
}
