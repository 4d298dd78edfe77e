package chaos_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/tree"
)

// Texts by which the proxy knows a transaction.
const (
	claimText  = "FOR UPDATE OF j SKIP LOCKED"
	settleText = "DELETE FROM \"coppice\".jobs j USING b"
	insertText = "INSERT INTO \"coppice\".jobs"
)

// lossy is a database with a client whose answers the proxy can lose.
func lossy(t *testing.T) (*testdb.DB, *proxy, *engine.Client, *pgxpool.Pool) {
	t.Helper()
	db := testdb.New(t)
	_, err := db.Pool.Exec(t.Context(), runsTable)
	require.NoError(t, err)
	p, config := newProxy(t, db.URL)
	config.MaxConns = 8
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // so that the proxy sees every text
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	client, err := engine.NewClient(pool, engine.ClientConfig{Logger: slog.New(newLogbook(t))})
	require.NoError(t, err)
	return db, p, client, pool
}

func TestLostAnswersToClaimsAndSettlesCostNothing(t *testing.T) {
	t.Parallel()
	db, p, client, pool := lossy(t)
	jobs := 0
	for range 20 {
		r, err := client.Insert(t.Context(), wood(3, 20, 500, ""))
		require.NoError(t, err)
		jobs += len(r.IDs)
	}
	w, err := engine.NewWorker(client, sums(db.Pool), engine.WorkerConfig{
		// Beats find the claims that were lost; a lease that a busy machine could not renew in time would cost attempts by right.
		Lease: 6 * time.Second, Queues: map[string]engine.QueueConfig{tree.DefaultQueue: {MaxRunning: 10}},
	})
	require.NoError(t, err)
	p.lose(claimText, 3)
	p.lose(settleText, 3)
	require.NoError(t, w.Start(t.Context()))
	defer func() { require.NoError(t, w.Stop(context.Background())) }()
	drained(t, db.Pool, client.Store(), jobs, time.Minute) // which no reaper helps
	require.Zero(t, p.left(), "answers that were not lost")
	require.EqualValues(t, 6, p.cuts.Load())
	require.Equal(t, jobs, number(t, db.Pool, `SELECT count(*) FROM runs`), "every handler ran once")
	require.Equal(t, jobs, number(t, db.Pool, `SELECT count(*) FROM coppice.history WHERE attempt = 1`), "no attempt was spent")
	require.Zero(t, number(t, db.Pool, `SELECT count(*) FROM coppice.job_errors`))
	require.LessOrEqual(t, pool.Stat().AcquiredConns(), int32(2))
	db.AssertNoDeadlocks(t)
}

func TestAKeyedInsertWhoseAnswerWasLostIsRepeated(t *testing.T) {
	t.Parallel()
	db, p, client, _ := lossy(t)
	for n := range either(8, 40) {
		job := func() *tree.Node { return tree.New(leaf{}, tree.Dedup(fmt.Sprint(n)), tree.Delay(time.Hour)) }
		p.lose(insertText, 1)
		_, err := client.Insert(t.Context(), job())
		require.Error(t, err, "the answer is lost")
		require.Zero(t, p.left())
		r, err := client.Insert(t.Context(), job())
		require.NoError(t, err)
		require.True(t, r.Duplicate, "the first was written")
		require.Equal(t, n+1, number(t, db.Pool, `SELECT count(*) FROM coppice.jobs`))
		require.Equal(t, int(r.ID), number(t, db.Pool, `SELECT id FROM coppice.jobs WHERE dedup_key = $1`, fmt.Sprint(n)))

		p.lose(insertText, 1)
		twig := func() *tree.Node { return wood(1, 3, 0, fmt.Sprintf("tree %d", n)) }
		_, err = client.InTx(nil).Insert(t.Context(), twig())
		require.Error(t, err)
		_, err = client.Insert(t.Context(), twig())
		require.Error(t, err)
		_, err = client.Insert(t.Context(), twig())
		var held *engine.DuplicateError
		require.ErrorAs(t, err, &held, "a tree is refused, and named by its root")
		_, err = db.Pool.Exec(t.Context(), `DELETE FROM coppice.jobs WHERE root_id = $1`, int64(held.ID))
		require.NoError(t, err)
	}
}
