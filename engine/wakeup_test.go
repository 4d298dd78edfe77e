package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// starts registers a handler of tasks that sends each one's number.
func (k *kit) starts() <-chan int {
	started := make(chan int, 1_000)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		started <- job.Args.N
		return nil, nil
	})
	return started
}

// listens waits until n workers listen on the test's database, and are asleep: what comes from then on is
// found by a wake-up or by a poll.
func (k *kit) listens(n int) {
	k.t.Helper()
	k.eventually(func() bool {
		return n == one[int](k, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
	}, "%d workers do not listen", n)
}

// stranger is a client of another process, as far as the workers can tell.
func (k *kit) stranger() *engine.Client {
	k.t.Helper()
	c, err := engine.NewClient(k.db.Pool, engine.ClientConfig{})
	require.NoError(k.t, err)
	k.t.Cleanup(func() { require.NoError(k.t, c.Close(context.Background())) })
	return c
}

func TestAnInsertWakesTheWorkerOfItsProcess(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started := k.starts()
	k.work(engine.WorkerConfig{PollInterval: time.Hour, PollOnly: true})
	for i := range 20 {
		k.insert(tree.New(task{i}))
		require.Equal(t, i, receive(t, started))
	}
}

func TestAnInsertWakesTheWorkersOfOtherProcesses(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started := k.starts()
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	k.listens(1)
	other := k.stranger()
	for i := range 20 {
		_, err := other.Insert(t.Context(), tree.New(task{i}))
		require.NoError(t, err)
		require.Equal(t, i, receive(t, started))
	}
}

func TestASettleWakesTheWorkersOfOtherQueues(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	done := make(chan struct{}, 1)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil })
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	other := k.stranger()
	reg := engine.NewRegistry()
	engine.MustFinalize(reg, func(context.Context, *engine.Job[roll], *engine.Children) (engine.None, error) {
		done <- struct{}{}
		return engine.None{}, nil
	})
	w, err := engine.NewWorker(other, reg, engine.WorkerConfig{PollInterval: time.Hour, Queues: map[string]engine.QueueConfig{"rolls": {}}})
	require.NoError(t, err)
	require.NoError(t, w.Start(t.Context()))
	defer func() { require.NoError(t, w.Stop(context.Background())) }()
	k.listens(2)
	k.insert(tree.New(roll{}, tree.Queue("rolls")).Add(tree.New(task{})))
	receive(t, done)
}

func TestAWorkerThatDoesNotListenFindsJobsByPolling(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started := k.starts()
	k.work(engine.WorkerConfig{PollInterval: 20 * time.Millisecond, PollOnly: true})
	other := k.stranger()
	for i := range 5 {
		_, err := other.Insert(t.Context(), tree.New(task{i}))
		require.NoError(t, err)
		require.Equal(t, i, receive(t, started))
	}
	require.Zero(t, one[int](k, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`))
}

func TestALostWakeUpCostsAPollInterval(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started := k.starts()
	k.work(engine.WorkerConfig{PollInterval: 50 * time.Millisecond})
	k.listens(1)
	st, err := store.New(k.db.Pool, "")
	require.NoError(t, err)
	plan, err := tree.NewPlan(tree.New(task{1}))
	require.NoError(t, err)
	_, err = st.Insert(t.Context(), plan) // the store tells nobody
	require.NoError(t, err)
	require.Equal(t, 1, receive(t, started))
}

func TestWakeUpsThatMeanNothingDoNoHarm(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started := k.starts()
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	k.listens(1)
	k.Wake()
	k.Wake("")
	for _, payload := range []string{"", "no such queue", "default", "default", "\U0001F333", strings.Repeat("x", 7_999), "{}", "'"} {
		k.exec(`SELECT pg_notify($1, $2)`, k.Store().Channel(), payload)
	}
	for i := range 200 {
		k.Wake(tree.DefaultQueue, "no such queue", tree.DefaultQueue)
		if i%50 == 0 {
			k.insert(tree.New(task{i}))
			require.Equal(t, i, receive(t, started))
		}
	}
	require.Empty(t, started, "one execution each")
	k.eventually(func() bool { return one[int](k, `SELECT count(*) FROM coppice.history`) == 4 }, "four jobs ran")
}

func TestAWorkerListensAgainWhenItsConnectionBreaks(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started := k.starts()
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	k.listens(1)
	other := k.stranger()
	for i := range 3 {
		k.eventually(func() bool {
			return one[int](k, `SELECT count(pg_terminate_backend(pid, 1000)) FROM pg_stat_activity
				WHERE datname = current_database() AND query LIKE 'LISTEN%'`) == 1
		}, "nobody listens")
		_, err := other.Insert(t.Context(), tree.New(task{i})) // maybe while nobody listens
		require.NoError(t, err)
		require.Equal(t, i, receive(t, started))
	}
}

func TestAJobExistsWhenTheCallersTransactionCommits(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started := k.starts()
	k.work(engine.WorkerConfig{PollInterval: 20 * time.Millisecond})
	tx, err := k.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	for i := range 2 {
		_, err = k.InTx(tx).Insert(t.Context(), tree.New(task{i}))
		require.NoError(t, err)
	}
	require.NoError(t, tx.Rollback(t.Context()))
	tx, err = k.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	r, err := k.InTx(tx).Insert(t.Context(), tree.New(task{2}))
	require.NoError(t, err)
	_, err = k.Store().Job(t.Context(), r.ID)
	require.ErrorIs(t, err, store.ErrNotFound, "nobody sees it yet")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, 2, receive(t, started))
	k.await(r.ID, tree.Completed)
	require.Empty(t, started, "what was rolled back is never run")
	require.Equal(t, 1, one[int](k, `SELECT count(*) FROM coppice.history`))
}

func TestWakeAfterACommitSparesThePollInterval(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started := k.starts()
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	k.listens(1)
	require.NoError(t, pgx.BeginFunc(t.Context(), k.db.Pool, func(tx pgx.Tx) error {
		_, err := k.InTx(tx).Insert(t.Context(), tree.New(task{1}))
		return err
	}))
	k.Wake(tree.DefaultQueue)
	require.Equal(t, 1, receive(t, started))
}
