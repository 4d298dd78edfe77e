package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// muteTracer lets no wake-up through while it is on.
type muteTracer struct{ on atomic.Bool }

func (m *muteTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if m.on.Load() && strings.Contains(q.SQL, "pg_notify") {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx
	}
	return ctx
}

func (m *muteTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestAReceiptSaysWhetherWorkersAreToldAndTheJobRunsInAnyCase(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil })
	k.work(engine.WorkerConfig{PollInterval: 100 * time.Millisecond, PollOnly: true})
	require.Equal(t, engine.Signal{Sent: true}, k.insert(tree.New(task{})).Signal, "a worker of this process")

	config, err := pgxpool.ParseConfig(k.db.URL)
	require.NoError(t, err)
	mute := &muteTracer{}
	config.ConnConfig.Tracer = mute
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	c, err := engine.NewClient(pool, engine.ClientConfig{Schema: k.db.Schema})
	require.NoError(t, err)
	r, err := c.Insert(t.Context(), tree.New(task{}))
	require.NoError(t, err)
	require.Equal(t, engine.Signal{Sent: true}, r.Signal, "by NOTIFY")

	mute.on.Store(true)
	k.eventually(func() bool {
		r, err = c.Insert(t.Context(), tree.New(task{}))
		require.NoError(t, err)
		return !r.Signal.Sent
	}, "a wake-up that fails is not noticed")
	require.ErrorIs(t, r.Signal.Cause, context.Canceled)
	k.await(r.ID, tree.Completed)
	mute.on.Store(false)
	k.eventually(func() bool {
		r, err = c.Insert(t.Context(), tree.New(task{}))
		require.NoError(t, err)
		return r.Signal.Sent
	}, "a wake-up that succeeds again is not noticed")
	require.NoError(t, c.Close(t.Context()))

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	r, err = c.InTx(tx).Insert(t.Context(), tree.New(task{}, tree.Dedup("d")))
	require.NoError(t, err)
	require.ErrorIs(t, r.Signal.Cause, engine.ErrInTransaction)
	r, err = c.InTx(tx).Insert(t.Context(), tree.New(task{}, tree.Dedup("d")))
	require.NoError(t, err)
	require.Equal(t, engine.Signal{}, r.Signal, "nothing was inserted")
	require.NoError(t, tx.Commit(t.Context()))
	k.await(r.ID, tree.Completed)
}
