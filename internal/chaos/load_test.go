package chaos_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/internal/testcheck"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// leaf works for a while and gives 1.
type leaf struct{ Micros int }

func (leaf) Kind() string { return "leaf" }

// bomb ends its process on the first attempt.
type bomb struct{}

func (bomb) Kind() string { return "bomb" }

// sum adds up what its children gave.
type sum struct{}

func (sum) Kind() string { return "sum" }

// runsTable notes every handler that starts, apart from what the engine writes.
const runsTable = `CREATE TABLE IF NOT EXISTS runs (job bigint, attempt int, round int, worker bigint, at timestamptz DEFAULT now())`

// sums makes the handlers of the load. A root fails for good when its sum is not what its tag says.
func sums(pool *pgxpool.Pool) *engine.Registry {
	reg := engine.NewRegistry()
	note := func(ctx context.Context, j *engine.JobInfo) error {
		_, err := pool.Exec(ctx, `INSERT INTO runs (job, attempt, round) VALUES ($1, $2, $3)`, int64(j.ID), j.Attempt, j.Round)
		return err
	}
	engine.MustWork(reg, func(ctx context.Context, job *engine.Job[leaf]) (int, error) {
		if err := note(ctx, job.JobInfo); err != nil {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(time.Duration(job.Args.Micros) * time.Microsecond):
		}
		return 1, nil
	})
	engine.MustWork(reg, func(_ context.Context, job *engine.Job[bomb]) (int, error) {
		if job.Attempt == 1 {
			os.Exit(3)
		}
		return 1, nil
	})
	engine.MustFinalize(reg, func(ctx context.Context, job *engine.Job[sum], kids *engine.Children) (int, error) {
		if err := note(ctx, job.JobInfo); err != nil {
			return 0, err
		}
		total := 0
		for r, err := range engine.Results[int](ctx, kids) {
			if err != nil {
				return 0, err
			}
			total += r.Value
		}
		if want := job.Meta()["leaves"]; want != fmt.Sprint(total) {
			return 0, engine.Fatal(fmt.Errorf("the children gave %d, not %s", total, want))
		}
		return total, nil
	})
	return reg
}

// patient never gives a job up: what dies in these tests died of a fault of the engine.
func patient(more ...tree.Option) []tree.Option {
	return append(more, tree.MaxAttempts(1_000), tree.WithBackoff(tree.Backoff{Base: 20 * time.Millisecond, Factor: 1, Cap: 50 * time.Millisecond}))
}

// wood makes a tree: a chain of depth finalizers, each with width leaves beside the next of the chain.
func wood(depth, width, micros int, key string) *tree.Node {
	var below *tree.Node
	for level := range depth {
		options := patient(tree.Meta("leaves", fmt.Sprint((level+1)*width)))
		if level == depth-1 && key != "" {
			options = append(options, tree.Dedup(key))
		}
		n := tree.New(sum{}, options...)
		if below != nil {
			n.Add(below)
		}
		for range width {
			n.Add(tree.New(leaf{micros}, patient()...))
		}
		below = n
	}
	return below
}

// logbook counts what is logged at Info and above, by message.
type logbook struct {
	t  testing.TB
	mu sync.Mutex
	n  map[string]int
}

func newLogbook(t testing.TB) *logbook {
	t.Helper()
	return &logbook{t: t, n: map[string]int{}}
}

func (l *logbook) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l *logbook) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *logbook) WithGroup(string) slog.Handler                    { return l }
func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n[r.Message]++
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	fmt.Fprintln(l.t.Output(), text)
	return nil
}

// lines returns how often each message was logged.
func (l *logbook) lines() (total int, by map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	by = map[string]int{}
	for m, n := range l.n {
		by[m] = n
		total += n
	}
	return total, by
}

// pool opens a pool that the test closes.
func open(t testing.TB, url string, most int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.MaxConns = most
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// number asks for one number, again while the server does not answer.
func number(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) int {
	t.Helper()
	var n int
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return pool.QueryRow(ctx, sql, args...).Scan(&n) == nil
	}, 30*time.Second, 20*time.Millisecond, "no answer to %s", sql)
	return n
}

// drained waits until no job is live, then expects the invariants to hold, nothing dead and every tree completed once.
func drained(t testing.TB, pool *pgxpool.Pool, s *store.Store, jobs int, within time.Duration) {
	t.Helper()
	left := func() int { return number(t, pool, `SELECT count(*) FROM coppice.jobs`) }
	if !waitFor(within, func() bool { return left() == 0 }) {
		rows, _ := pool.Query(context.Background(), `SELECT state || ' worker ' || coalesce(worker_id::text, '-') || ' pending ' || pending || ' attempt ' || attempt
			|| ' due ' || (run_at - now()) FROM coppice.jobs ORDER BY id DESC LIMIT 20`)
		for rows.Next() {
			var line string
			_ = rows.Scan(&line)
			t.Log(line)
		}
		t.Fatalf("%d jobs are left", left())
	}
	require.Zero(t, number(t, pool, `SELECT count(*) FROM coppice.dead_jobs`), "dead letters")
	require.Equal(t, jobs, number(t, pool, `SELECT count(*) FROM coppice.history WHERE state = 'completed'`), "completed jobs")
	require.Zero(t, number(t, pool, `SELECT count(*) FROM coppice.results`), "results that are left")
	testcheck.AssertInvariants(t, s)
}

// waitFor polls until the condition holds or the time is over.
func waitFor(within time.Duration, holds func() bool) bool {
	for end := time.Now().Add(within); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return holds()
}

// workerProcess is the main function of a worker in a process of its own.
func workerProcess(ctx context.Context, url string) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns = 12
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := engine.NewClient(pool, engine.ClientConfig{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	w, err := engine.NewWorker(client, sums(pool), engine.WorkerConfig{
		Lease: time.Second, PollInterval: 200 * time.Millisecond, Queues: map[string]engine.QueueConfig{tree.DefaultQueue: {MaxRunning: 8}},
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
