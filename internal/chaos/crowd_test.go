package chaos_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/reaper"
	"github.com/coppicehq/coppice/tree"
)

// crowd is a database with workers of one configuration, each on a pool of its own.
func crowd(t *testing.T, workers int, config engine.WorkerConfig) (*testdb.DB, *engine.Client) {
	t.Helper()
	db := testdb.New(t)
	_, err := db.Pool.Exec(t.Context(), runsTable)
	require.NoError(t, err)
	client, err := engine.NewClient(db.Pool, engine.ClientConfig{})
	require.NoError(t, err)
	for range workers {
		own, err := engine.NewClient(open(t, db.URL, 5), engine.ClientConfig{Logger: slog.New(newLogbook(t))})
		require.NoError(t, err)
		w, err := engine.NewWorker(own, sums(db.Pool), config)
		require.NoError(t, err)
		require.NoError(t, w.Start(t.Context()))
		t.Cleanup(func() {
			require.NoError(t, w.Stop(context.Background()))
			require.NoError(t, own.Close(context.Background()))
		})
	}
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
	return db, client
}

func TestFiftyQueuesOfOneWorkerAndTenWorkersOfOneQueueDrain(t *testing.T) {
	t.Parallel()
	trees := either(200, 1_000)
	for name, c := range map[string]struct{ queues, workers int }{"50 queues": {50, 1}, "10 workers": {1, 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := engine.WorkerConfig{Queues: map[string]engine.QueueConfig{}}
			for q := range c.queues {
				config.Queues[fmt.Sprint("q", q)] = engine.QueueConfig{MaxRunning: 4}
			}
			db, client := crowd(t, c.workers, config)
			for n := range trees {
				queue := tree.Queue(fmt.Sprint("q", n%c.queues))
				_, err := client.Insert(t.Context(), tree.New(sum{}, patient(queue, tree.Meta("leaves", "2"))...).Add(
					tree.New(leaf{}, patient(queue)...), tree.New(leaf{}, patient(queue)...)))
				require.NoError(t, err)
			}
			begun := time.Now()
			drained(t, db.Pool, client.Store(), 3*trees, time.Minute)
			t.Logf("drained %v after the last insert", time.Since(begun))
			require.Equal(t, 3*trees, number(t, db.Pool, `SELECT count(*) FROM runs`), "every handler ran once")
			db.AssertNoDeadlocks(t)
		})
	}
}

func TestShortLeasesOnAStarvedMachineLoseNothing(t *testing.T) {
	t.Parallel()
	db, client := crowd(t, 2, engine.WorkerConfig{Lease: time.Second, Queues: map[string]engine.QueueConfig{tree.DefaultQueue: {MaxRunning: 8}}})
	reap, err := reaper.New(client.Store(), reaper.Config{Rescue: "@every 1s"})
	require.NoError(t, err)
	require.NoError(t, reap.Start())
	defer func() { require.NoError(t, reap.Stop(context.Background())) }()
	ctx, stop := context.WithTimeout(t.Context(), either(4*time.Second, 20*time.Second))
	defer stop()
	var spinning sync.WaitGroup
	for range 8 * runtime.GOMAXPROCS(0) {
		spinning.Go(func() {
			for ctx.Err() == nil { // burns the processor
				continue
			}
		})
	}
	jobs := 0
	for ctx.Err() == nil {
		r, err := client.Insert(context.Background(), wood(5, 10, 5_000, ""))
		require.NoError(t, err)
		jobs += len(r.IDs)
	}
	spinning.Wait()
	drained(t, db.Pool, client.Store(), jobs, time.Minute)
	t.Logf("%d jobs, %d claims lost", jobs, number(t, db.Pool, `SELECT count(*) FROM coppice.job_errors WHERE outcome = 'lost'`))
	db.AssertNoDeadlocks(t)
}

// urgent is a job in front of all others, which tells how long it waited.
type urgent struct{}

func (urgent) Kind() string { return "urgent" }

// TestAnOldSnapshotSlowsNoDrain keeps a transaction open while a producer inserts and a worker drains, so that the entries of
// the jobs that are done stay in the index, and looks at how long jobs wait that come in front of the others: new ones, and
// ones that come due.
func TestAnOldSnapshotSlowsNoDrain(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	client, err := engine.NewClient(db.Pool, engine.ClientConfig{Logger: slog.New(newLogbook(t))})
	require.NoError(t, err)
	old, err := db.Pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = old.Rollback(context.Background()) }()
	_, err = old.Exec(t.Context(), `SELECT count(*) FROM coppice.jobs`)
	require.NoError(t, err)

	started := make(chan tree.ID, 10_000)
	reg := engine.NewRegistry()
	engine.MustWork(reg, func(context.Context, *engine.Job[leaf]) (engine.None, error) { return engine.None{}, nil })
	engine.MustWork(reg, func(_ context.Context, job *engine.Job[urgent]) (engine.None, error) {
		started <- job.ID
		return engine.None{}, nil
	})
	w, err := engine.NewWorker(client, reg, engine.WorkerConfig{})
	require.NoError(t, err)
	require.NoError(t, w.Start(t.Context()))
	defer func() { require.NoError(t, w.Stop(context.Background())) }()

	length := either(6*time.Second, time.Minute)
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var producers sync.WaitGroup
	var made []int // jobs by second
	begun := time.Now()
	producers.Go(func() {
		batch := make([]*tree.Node, 1_000)
		for i := range batch {
			batch[i] = tree.New(leaf{}, tree.KeepFor(0))
		}
		for ctx.Err() == nil {
			if number(t, db.Pool, `SELECT count(*) FROM (SELECT FROM coppice.jobs WHERE state = 'ready' LIMIT 5000) r`) == 5_000 {
				<-time.After(5 * time.Millisecond)
				continue
			}
			if _, err := client.InsertMany(context.Background(), batch...); err != nil {
				t.Error(err)
				return
			}
			for second := int(time.Since(begun).Seconds()); len(made) <= second; {
				made = append(made, 0)
			}
			made[len(made)-1] += len(batch)
		}
	})
	var waits []time.Duration
	for n := 0; ctx.Err() == nil; n++ {
		due := []tree.Option{tree.Priority(-1), tree.KeepFor(0)}
		wait := time.Duration(0)
		if n%2 == 1 {
			wait = 300 * time.Millisecond
			due = append(due, tree.Delay(wait))
		}
		asked := time.Now()
		_, err := client.Insert(context.Background(), tree.New(urgent{}, due...))
		require.NoError(t, err)
		select {
		case <-started:
		case <-time.After(20 * time.Second):
			t.Fatal("an urgent job was not found")
		}
		waits = append(waits, time.Since(asked)-wait)
		<-time.After(100 * time.Millisecond)
	}
	producers.Wait()
	require.True(t, waitFor(time.Minute, func() bool { return number(t, db.Pool, `SELECT count(*) FROM coppice.jobs`) == 0 }), "jobs are left")
	slices.Sort(waits)
	t.Logf("jobs by second: %v; %d urgent jobs waited %v in the middle, %v at most", made, len(waits), waits[len(waits)/2], waits[len(waits)-1])
	require.Less(t, waits[len(waits)-1], 4*time.Second, "a second behind the cursor, one of polling, and the machine's own")
}
