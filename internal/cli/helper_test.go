package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// shell runs commands as a user would, in this process.
type shell struct {
	t        testing.TB
	env      map[string]string
	terminal bool   // a person sits there
	answer   string // what the person types
	columns  int    // of the terminal
	after    func(time.Duration) <-chan time.Time
}

// newShell is one without a database.
func newShell(t testing.TB) *shell {
	t.Helper()
	// A URL that leads nowhere, so that no test starts a private server by mistake.
	return &shell{t: t, env: map[string]string{databaseEnv: "postgres://127.0.0.1:1/none?connect_timeout=1"}}
}

// on points the shell at a test's database.
func (s *shell) on(db *testdb.DB) *shell {
	s.env[databaseEnv] = db.URL
	return s
}

// said is what a command did.
type said struct {
	t    testing.TB
	code int
	out  string
	err  string
}

func (s *shell) run(args ...string) said {
	s.t.Helper()
	return s.runUntil(s.t.Context(), args...)
}

func (s *shell) runUntil(ctx context.Context, args ...string) said {
	s.t.Helper()
	var out, err strings.Builder
	app := &App{
		In: strings.NewReader(s.answer), Out: &out, Err: &err,
		Env:        func(name string) string { return s.env[name] },
		InTerminal: s.terminal, OutTerminal: s.terminal, ErrTerminal: s.terminal,
		Size:  func() (int, int) { return s.columns, 24 },
		After: s.after,
	}
	code := app.Run(ctx, args)
	return said{s.t, code, out.String(), err.String()}
}

// ok demands success and returns what went to stdout.
func (s said) ok() string {
	s.t.Helper()
	require.Equal(s.t, exitOK, s.code, "stderr: %s", s.err)
	return s.out
}

// fails demands an exit code and words on stderr.
func (s said) fails(code int, words string) {
	s.t.Helper()
	require.Equal(s.t, code, s.code, "stdout: %s\nstderr: %s", s.out, s.err)
	require.Contains(s.t, s.err, words)
}

// readJSON demands success, and JSON that has no other fields than T.
func readJSON[T any](s said) T {
	s.t.Helper()
	return parseJSON[T](s.t, s.ok())
}

func parseJSON[T any](t testing.TB, text string) (v T) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&v), text)
	return v
}

// world is a database with jobs in it.
type world struct {
	*testdb.DB
	*shell
}

func newWorld(t testing.TB) *world {
	t.Helper()
	db := testdb.New(t)
	return &world{db, newShell(t).on(db)}
}

func (w *world) exec(sql string) {
	w.t.Helper()
	_, err := w.Pool.Exec(w.t.Context(), strings.ReplaceAll(sql, "{s}", w.Schema))
	require.NoError(w.t, err)
}

// row is a row to be put into a table; what it does not name has the columns' defaults, or these: a job is a
// root of kind k in queue q with args {}, live ones are ready, finished ones completed.
type row map[string]any

func (w *world) put(table string, r row) {
	w.t.Helper()
	all := row{"root_id": r["id"], "kind": "k", "queue": "q", "args": "{}"}
	switch table {
	case "jobs":
		all["state"] = "ready"
	case "dead_jobs":
		all["state"], all["reason"] = "dead", "fatal"
	case "history":
		all["state"] = "completed"
	}
	maps.Copy(all, r)
	columns := slices.Sorted(maps.Keys(all))
	values, args := make([]string, len(columns)), make([]any, len(columns))
	for i, c := range columns {
		values[i], args[i] = fmt.Sprintf("$%d", i+1), all[c]
	}
	_, err := w.Pool.Exec(w.t.Context(), fmt.Sprintf("INSERT INTO %s.%s (%s) VALUES (%s)",
		w.Schema, table, strings.Join(columns, ", "), strings.Join(values, ", ")), args...)
	require.NoError(w.t, err)
}

// album puts a tree with all sorts of children: 1 is the root, 7 a stalled finalizer.
func (w *world) album() {
	w.exec(`INSERT INTO {s}.workers (id, expires_at, pid, name, host, queues, kinds)
		VALUES (9, now() + interval '1 hour', 1, 'w', 'h', '{media}', '{}')`)
	w.put("jobs", row{
		"id": 1, "kind": "album", "queue": "media", "state": "waiting", "round": 1,
		"pending": 3, "completed": 3, "dead": 1, "args": `{"album":7}`,
	})
	kid := func(id int, more row) row {
		all := row{"id": id, "root_id": 1, "parent_id": 1, "kind": "resize", "queue": "media", "child_key": fmt.Sprintf("%d.png", id)}
		maps.Copy(all, more)
		return all
	}
	w.put("history", kid(2, nil))
	w.put("history", kid(3, nil))
	w.put("dead_jobs", kid(4, row{"error": "no such file\n\x1b[2J", "attempt": 3, "max_attempts": 3, "reason": "attempts_spent"}))
	w.put("jobs", kid(5, nil))
	w.put("jobs", kid(6, row{"state": "running", "worker_id": 9, "attempt": 2, "started_at": "now"}))
	w.put("jobs", kid(7, row{"kind": "chapter", "state": "waiting", "round": 1, "dead": 1, "stalled_at": "now"}))
	w.put("dead_jobs", row{"id": 8, "root_id": 1, "parent_id": 7, "kind": "resize", "queue": "media"})
	w.exec(`INSERT INTO {s}.job_errors (job_id, root_id, worker_id, attempt, round, outcome, error, stack)
		VALUES (6, 1, 9, 1, 0, 'panic', 'panic: nil map', E'goroutine 1\n\tmain.go:3')`)
}
