package dlq_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/dlq"
	"github.com/coppicehq/coppice/internal/testcheck"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// fixture is the dead letters of one test's own database, which must keep the invariants to its end.
type fixture struct {
	*dlq.Letters
	t     *testing.T
	db    *testdb.DB
	store *store.Store
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db := testdb.New(t)
	st, err := store.New(db.Pool, db.Schema)
	require.NoError(t, err)
	t.Cleanup(func() { testcheck.AssertInvariants(t, st); db.AssertNoDeadlocks(t) })
	return &fixture{Letters: dlq.New(st), t: t, db: db, store: st}
}

func (f *fixture) exec(text string, args ...any) {
	f.t.Helper()
	_, err := f.db.Pool.Exec(f.t.Context(), text, args...)
	require.NoError(f.t, err)
}

// row is a dead letter to be put into the table; what it does not name has the columns' defaults, or these: it is a
// root of kind k in queue q with args {}, dead for reason fatal.
type row map[string]any

func (f *fixture) put(r row) {
	f.t.Helper()
	all := row{"root_id": r["id"], "kind": "k", "queue": "q", "state": "dead", "reason": "fatal", "args": "{}"}
	maps.Copy(all, r)
	columns := slices.Sorted(maps.Keys(all))
	values, args := make([]string, len(columns)), make([]any, len(columns))
	for i, c := range columns {
		values[i], args[i] = fmt.Sprintf("$%d", i+1), all[c]
	}
	f.exec(fmt.Sprintf("INSERT INTO coppice.dead_jobs (%s) VALUES (%s)",
		strings.Join(columns, ", "), strings.Join(values, ", ")), args...)
}

// matching lists everything that matches, by ascending id.
func (f *fixture) matching(filter dlq.Filter) []tree.ID {
	f.t.Helper()
	ids := f.walk(filter, dlq.Page{Limit: dlq.MaxPage})
	slices.Sort(ids)
	return ids
}

// walk lists everything that matches, page by page, in the list's order.
func (f *fixture) walk(filter dlq.Filter, page dlq.Page) (ids []tree.ID) {
	f.t.Helper()
	for range 1000 {
		entries, next, err := f.List(f.t.Context(), filter, page)
		require.NoError(f.t, err)
		require.LessOrEqual(f.t, len(entries), page.Limit)
		for _, e := range entries {
			ids = append(ids, e.ID)
		}
		if next == "" {
			return ids
		}
		require.Len(f.t, entries, page.Limit, "only the last page may be short")
		page.Cursor = next
	}
	require.Fail(f.t, "the pages have no end")
	return nil
}
