package engine_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/internal/testcheck"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// kit is a database of the test's own with a client on it. The invariant check and the search for deadlocks
// in the server's log run when the test ends, after every worker has stopped.
type kit struct {
	*engine.Client
	t   testing.TB
	db  *testdb.DB
	reg *engine.Registry
}

func newKit(t testing.TB) *kit {
	t.Helper()
	db := testdb.New(t)
	return newKitOn(t, db, db.Pool)
}

// newKitOn is newKit over a pool of the test's own.
func newKitOn(t testing.TB, db *testdb.DB, pool *pgxpool.Pool) *kit {
	t.Helper()
	client, err := engine.NewClient(pool, engine.ClientConfig{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	require.NoError(t, err)
	k := &kit{Client: client, t: t, db: db, reg: engine.NewRegistry()}
	t.Cleanup(func() {
		require.NoError(t, client.Close(context.Background()))
		testcheck.AssertInvariants(t, client.Store())
		db.AssertNoDeadlocks(t)
	})
	return k
}

// work starts a worker of what is registered and stops it when the test ends.
func (k *kit) work(config engine.WorkerConfig) *engine.Worker {
	k.t.Helper()
	w, err := engine.NewWorker(k.Client, k.reg, config)
	require.NoError(k.t, err)
	require.NoError(k.t, w.Start(k.t.Context()))
	k.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(k.t, w.Stop(ctx))
	})
	return w
}

// insert inserts one job or tree.
func (k *kit) insert(n *tree.Node) engine.Receipt {
	k.t.Helper()
	r, err := k.Insert(k.t.Context(), n)
	require.NoError(k.t, err)
	return r
}

// patience bounds every wait of a test: it is how long a broken engine takes to fail, not how long a sound
// one takes.
const patience = 20 * time.Second

// await polls the job's row until it is in the state. Use it for what has no signal of its own.
func (k *kit) await(id tree.ID, state tree.State) *store.JobRow {
	k.t.Helper()
	var row *store.JobRow
	require.Eventually(k.t, func() bool {
		var err error
		row, err = k.Store().Job(k.t.Context(), id)
		return err == nil && row.State == state
	}, patience, 5*time.Millisecond, "job %d did not become %s", id, state)
	return row
}

// receive waits for one value.
func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}
