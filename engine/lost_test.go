package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// TestAnOutcomeUnderAPassedFenceIsNotRecorded takes the job away from under its handler, as a rescue or an operator
// would, and lets the handler end in every way.
func TestAnOutcomeUnderAPassedFenceIsNotRecorded(t *testing.T) {
	t.Parallel()
	for take, sql := range map[string]string{
		"claimed again": `UPDATE coppice.jobs SET claim_seq = claim_seq + 1 WHERE kind = 'task'`,
		"by another":    `UPDATE coppice.jobs SET worker_id = (SELECT id FROM coppice.workers WHERE name = 'other') WHERE kind = 'task'`,
		"made ready":    `UPDATE coppice.jobs SET state = 'ready', worker_id = NULL, attempt = 0, queue = 'later' WHERE kind = 'task'`,
	} {
		for name, end := range map[string]func() (any, error){
			"success": func() (any, error) { return 1, nil },
			"failure": func() (any, error) { return nil, errBoom },
			"fatal":   func() (any, error) { return nil, engine.Fatal(errBoom) },
			"cancel":  func() (any, error) { return nil, engine.Cancel(errBoom) },
			"snooze":  func() (any, error) { return nil, engine.Snooze(time.Hour) },
			"panic":   func() (any, error) { panic("p") },
		} {
			t.Run(take+"/"+name, func(t *testing.T) {
				t.Parallel()
				k := newKit(t)
				started, goOn := make(chan struct{}), make(chan struct{})
				k.onTask(func(context.Context, *engine.Job[task]) (any, error) {
					close(started)
					<-goOn
					return end()
				})
				k.onRoll(func(context.Context, *engine.Job[roll], *engine.Children) (any, error) {
					t.Error("the parent ran")
					return nil, nil
				})
				k.exec(`INSERT INTO coppice.workers (id, expires_at, pid, name, host, queues, kinds)
					VALUES (-1, now() + interval '1 hour', 0, 'other', '', '{}', '{}')`)
				w := k.begin(engine.WorkerConfig{})
				r := k.insert(tree.New(roll{}).Add(tree.New(task{})))
				receive(t, started)
				k.exec(sql)
				read := func() string {
					return one[string](k, `SELECT row_to_json(j)::text FROM coppice.jobs j WHERE id = $1`, r.IDs[1])
				}
				before := read()
				close(goOn)
				// Stop writes every outcome. The worker keeps its row while the database says that it holds a job.
				require.NoError(t, w.Stop(t.Context()))
				if take != "claimed again" { // there the row still names this worker, which gives it back
					require.Equal(t, before, read())
				}
				require.Equal(t, 1, k.await(r.ID, tree.Waiting).Pending)
				for _, table := range []string{"job_errors", "dead_jobs", "history", "results"} {
					require.Zero(t, one[int](k, `SELECT count(*) FROM coppice.`+table), table)
				}
			})
		}
	}
}

func TestAWorkerWhoseLeaseIsGoneCancelsItsHandlersAndRegistersAnew(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started, causes := make(chan struct{}, 2), make(chan error, 1)
	k.onTask(func(ctx context.Context, job *engine.Job[task]) (any, error) {
		if started <- struct{}{}; job.Args.N == 0 {
			return nil, nil
		}
		if job.Attempt == 2 { // taken back, and run again
			return "again", nil
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "not recorded", nil
	})
	w := k.work(engine.WorkerConfig{Lease: time.Second, Queues: slots(2)})
	id := k.insert(tree.New(task{1})).ID
	receive(t, started)
	first := w.ID()
	k.eventually(func() bool { // a beat that lands in between saves the worker
		k.exec(`UPDATE coppice.workers SET expires_at = now() - interval '1 second'`) // as if it had been silent for long
		rescued, err := k.Store().Rescue(t.Context(), 10)
		return err == nil && rescued.Retried == 1
	}, "nothing was rescued")
	require.ErrorIs(t, receive(t, causes), engine.ErrClaimLost)
	k.eventually(func() bool { return w.ID() != first }, "the worker does not register anew")
	require.Equal(t, `"again"`, string(k.await(id, tree.Completed).Result))
	k.await(k.insert(tree.New(task{0})).ID, tree.Completed)
	require.Equal(t, int64(w.ID()), one[int64](k, `SELECT id FROM coppice.workers`))
	failures := k.failures(id)
	require.Len(t, failures, 1)
	require.Equal(t, tree.OutcomeLost, failures[0].Outcome)
	require.Equal(t, first, failures[0].WorkerID)
}

// TestALeaseThatCannotBeRenewedEndsByTheWorkersOwnClock holds the worker's row locked, so that no beat gets through,
// for longer than the lease; nobody takes the job meanwhile.
func TestALeaseThatCannotBeRenewedEndsByTheWorkersOwnClock(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started, causes, goOn := make(chan int, 10), make(chan error, 1), make(chan struct{})
	k.onTask(func(ctx context.Context, job *engine.Job[task]) (any, error) {
		if started <- job.Attempt; len(causes) > 0 {
			return "again", nil
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		<-goOn
		return "not recorded", nil
	})
	w := k.work(engine.WorkerConfig{Lease: time.Second, Queues: slots(2)})
	id := k.insert(tree.New(task{}, tree.MaxAttempts(1))).ID
	require.Equal(t, 1, receive(t, started))
	before := w.ID()
	tx, err := k.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM coppice.workers FOR UPDATE`)
	require.NoError(t, err)
	k.eventually(func() bool { return len(causes) == 1 }, "the handler goes on without a lease")
	require.NoError(t, tx.Rollback(t.Context()))
	// The lease is renewed again, and the row still this worker's. While the handler runs, whether it should or
	// not, the job is not run beside it.
	beat := one[time.Time](k, `SELECT beat_at FROM coppice.workers`)
	for range 2 {
		k.eventually(func() bool { return one[time.Time](k, `SELECT beat_at FROM coppice.workers`).After(beat) }, "no beat")
		beat = one[time.Time](k, `SELECT beat_at FROM coppice.workers`)
	}
	require.Equal(t, tree.Running, k.state(id))
	require.Empty(t, started)
	close(goOn)
	require.Equal(t, 1, receive(t, started), "it goes back at no cost")
	require.Equal(t, `"again"`, string(k.await(id, tree.Completed).Result))
	require.ErrorIs(t, receive(t, causes), engine.ErrClaimLost)
	require.Equal(t, before, w.ID())
	require.Empty(t, k.failures(id))
}

// TestAJobMayRunForLongerThanTheLease runs rescues all the while; the beats keep the job.
func TestAJobMayRunForLongerThanTheLease(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started, goOn := make(chan struct{}), make(chan struct{})
	k.onTask(func(ctx context.Context, _ *engine.Job[task]) (any, error) {
		close(started)
		<-goOn
		return "done", ctx.Err()
	})
	k.work(engine.WorkerConfig{Lease: time.Second})
	id := k.insert(tree.New(task{}, tree.MaxAttempts(1))).ID
	receive(t, started)
	firstEnd := one[time.Time](k, `SELECT expires_at FROM coppice.workers`)
	k.eventually(func() bool {
		rescued, err := k.Store().Rescue(t.Context(), 10)
		require.NoError(t, err)
		require.Zero(t, rescued.Workers)
		return one[bool](k, `SELECT now() > $1`, firstEnd)
	}, "the first lease does not end")
	close(goOn)
	require.Equal(t, `"done"`, string(k.await(id, tree.Completed).Result))
}
