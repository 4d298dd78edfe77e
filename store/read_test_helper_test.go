package store_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/store"
)

// fixture is a database of one test's own, with what its store last asked the server.
type fixture struct {
	*store.Store
	t     testing.TB
	watch string                      // if set, only statements that contain it are remembered
	last  atomic.Pointer[[]statement] // a transaction of one round trip, or one statement
}

// statement is one query with its parameters, as sent.
type statement struct {
	sql  string
	args []any
}

// newFixture makes a store on a database of the test's own, over connections that remember what they send.
func newFixture(t testing.TB) *fixture {
	t.Helper()
	db := testdb.New(t)
	config := db.Pool.Config()
	config.MaxConns = 3
	f := &fixture{t: t}
	config.ConnConfig.Tracer = f
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	f.Store, err = store.New(pool, db.Schema)
	require.NoError(t, err)
	return f
}

// The methods that follow make f a tracer that remembers what was sent, for tests of plans.

func (f *fixture) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, f.watch) {
		f.last.Store(&[]statement{{q.SQL, q.Args}})
	}
	return ctx
}

func (f *fixture) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (f *fixture) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	var sent []statement
	for _, q := range b.Batch.QueuedQueries {
		sent = append(sent, statement{q.SQL, q.Arguments})
	}
	f.last.Store(&sent)
	return ctx
}

func (f *fixture) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (f *fixture) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// sql writes the fixture's schema into a statement, in place of {s}.
func (f *fixture) sql(text string) string {
	return strings.ReplaceAll(text, "{s}", pgx.Identifier{f.Schema()}.Sanitize())
}

// exec runs statements on the fixture's schema.
func (f *fixture) exec(text string) {
	f.t.Helper()
	_, err := f.Pool().Exec(f.t.Context(), f.sql(text))
	require.NoError(f.t, err)
}

// row is a row to be put into a table; what it does not name has the columns' defaults, or these: a job is a
// root of kind k in queue q with args {}, live ones are ready, finished ones completed.
type row map[string]any

func (f *fixture) put(table string, r row) {
	f.t.Helper()
	if id, ok := r["id"]; ok && table != "workers" {
		all := row{"root_id": id, "kind": "k", "queue": "q", "args": "{}"}
		switch table {
		case "jobs":
			all["state"] = "ready"
		case "dead_jobs":
			all["state"], all["reason"] = "dead", "fatal"
		case "history":
			all["state"] = "completed"
		}
		maps.Copy(all, r)
		r = all
	}
	columns := slices.Sorted(maps.Keys(r))
	values, args := make([]string, len(columns)), make([]any, len(columns))
	for i, c := range columns {
		values[i], args[i] = fmt.Sprintf("$%d", i+1), r[c]
	}
	_, err := f.Pool().Exec(f.t.Context(), f.sql(fmt.Sprintf("INSERT INTO {s}.%s (%s) VALUES (%s)",
		table, strings.Join(columns, ", "), strings.Join(values, ", "))), args...)
	require.NoError(f.t, err)
}
