package chaos_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/internal/pglocal"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/migrations"
	"github.com/coppicehq/coppice/reaper"
	"github.com/coppicehq/coppice/tree"
)

// server is a durable server of the test's own.
type server struct {
	t       *testing.T
	options pglocal.Options
	up      *pglocal.Server
}

func newServer(t *testing.T) *server {
	t.Helper()
	folder, err := os.MkdirTemp("", "pg") //nolint:usetesting // short, to leave room for the socket's name
	require.NoError(t, err)
	require.NoError(t, os.Chmod(folder, 0o755))
	s := &server{t: t, options: pglocal.Options{Folder: folder, Force: true}}
	t.Cleanup(func() {
		require.NoError(t, pglocal.Stop(context.Background(), s.options))
		require.NoError(t, os.RemoveAll(folder))
	})
	s.start()
	return s
}

func (s *server) start() {
	s.t.Helper()
	var err error
	s.up, err = pglocal.Start(context.Background(), s.options)
	require.NoError(s.t, err)
	up := s.up
	s.t.Cleanup(func() { _ = up.Close(context.Background()) })
}

// end stops the server with a signal: SIGINT ends its transactions in order, SIGQUIT and SIGKILL crash it.
func (s *server) end(how syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, syscall.Kill(s.up.Info().PID, how))
	require.True(s.t, waitFor(30*time.Second, func() bool { return syscall.Kill(s.up.Info().PID, 0) == syscall.ESRCH }), "the server goes on")
}

// load inserts keyed trees from several goroutines, each again until it is known to be there, until stop is called,
// which answers how many jobs there are.
type load struct {
	jobs, repeats atomic.Int64
	wg            sync.WaitGroup
	stop          context.CancelFunc
}

func insertUntilStopped(t *testing.T, client *engine.Client, every time.Duration, micros int) *load {
	t.Helper()
	l := &load{}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	for p := range 2 {
		l.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				node := wood(1+rand.IntN(4), 1+rand.IntN(20), micros, fmt.Sprintf("%d/%d", p, n))
				for {
					limited, cancel := context.WithTimeout(context.Background(), 5*time.Second)
					r, err := client.Insert(limited, node)
					cancel()
					if err == nil {
						l.jobs.Add(int64(len(r.IDs)))
						break
					}
					l.repeats.Add(1)
					<-time.After(20 * time.Millisecond)
				}
				<-time.After(every)
			}
		})
	}
	return l
}

func (l *load) end() {
	l.stop()
	l.wg.Wait()
}

// rig is a worker with a reaper and a load on one database.
type rig struct {
	client *engine.Client
	worker *engine.Worker
	pool   *pgxpool.Pool
	log    *logbook
}

func newRig(t *testing.T, url string, config engine.WorkerConfig) *rig {
	t.Helper()
	r := &rig{pool: open(t, url, 10), log: newLogbook(t)}
	var err error
	r.client, err = engine.NewClient(r.pool, engine.ClientConfig{Logger: slog.New(r.log)})
	require.NoError(t, err)
	r.worker, err = engine.NewWorker(r.client, sums(open(t, url, 8)), config)
	require.NoError(t, err)
	require.NoError(t, r.worker.Start(t.Context()))
	reap, err := reaper.New(r.client.Store(), reaper.Config{Rescue: "@every 1s", Logger: slog.New(r.log)})
	require.NoError(t, err)
	require.NoError(t, reap.Start())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, r.worker.Stop(ctx))
		require.NoError(t, reap.Stop(ctx))
		require.NoError(t, r.client.Close(ctx))
		require.Zero(t, r.pool.Stat().AcquiredConns(), "connections that did not come back")
	})
	return r
}

func TestNothingIsLostWhenTheServerStopsAndCrashes(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	url := s.up.URL()
	m, err := migrations.New(url, migrations.DefaultSchema)
	require.NoError(t, err)
	_, err = m.Up(t.Context())
	require.NoError(t, err)
	watch := open(t, url, 4)
	_, err = watch.Exec(t.Context(), runsTable)
	require.NoError(t, err)

	r := newRig(t, url, engine.WorkerConfig{Lease: 3 * time.Second, Queues: map[string]engine.QueueConfig{tree.DefaultQueue: {MaxRunning: 20}}})
	inserts := insertUntilStopped(t, r.client, 5*time.Millisecond, 1_000)
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL}
	restarts := either(3, 12)
	for n := range restarts {
		<-time.After(time.Duration(500+rand.IntN(1000)) * time.Millisecond)
		s.end(signals[n%3])
		if n%5 == 4 {
			<-time.After(4 * time.Second) // longer than the lease
		}
		s.start()
	}
	<-time.After(500 * time.Millisecond)
	inserts.end()
	drained(t, watch, r.client.Store(), int(inserts.jobs.Load()), 30*time.Second)
	total, by := r.log.lines()
	t.Logf("%d jobs, %d inserts repeated, %d attempts that ran again, log %v", inserts.jobs.Load(), inserts.repeats.Load(),
		number(t, watch, `SELECT count(*) - count(DISTINCT job) FROM runs`), by)
	require.Less(t, total, 12*restarts, "lines in the log")
	log, err := os.ReadFile(filepath.Clean(s.up.Info().Log))
	require.NoError(t, err)
	require.NotContains(t, string(log), "deadlock detected")
}

func TestNothingIsLostWhenConnectionsAreCutAtRandom(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	_, err := db.Pool.Exec(t.Context(), runsTable)
	require.NoError(t, err)
	admin, err := pgx.Connect(t.Context(), db.Admin)
	require.NoError(t, err)
	defer func() { _ = admin.Close(context.Background()) }()
	r := newRig(t, db.URL, engine.WorkerConfig{Lease: 3 * time.Second, Queues: map[string]engine.QueueConfig{tree.DefaultQueue: {MaxRunning: 20}}})
	inserts := insertUntilStopped(t, r.client, 5*time.Millisecond, 500)
	cuts := 0
	for end := time.Now().Add(either(4*time.Second, time.Minute)); time.Now().Before(end); <-time.After(time.Duration(rand.IntN(100)) * time.Millisecond) {
		tag, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
			WHERE datname = $1 AND pid <> pg_backend_pid() AND application_name = '' ORDER BY random() LIMIT 1) p`, db.Name)
		require.NoError(t, err)
		cuts += int(tag.RowsAffected())
	}
	inserts.end()
	drained(t, db.Pool, r.client.Store(), int(inserts.jobs.Load()), 30*time.Second)
	_, by := r.log.lines()
	t.Logf("%d cuts, %d jobs, %d inserts repeated, %d attempts that ran again, log %v", cuts, inserts.jobs.Load(), inserts.repeats.Load(),
		number(t, db.Pool, `SELECT count(*) - count(DISTINCT job) FROM runs`), by)
	db.AssertNoDeadlocks(t)
}
