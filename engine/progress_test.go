package engine_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/tree"
)

func TestACheckpointReachesOthersAndTheNextAttempt(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	type mark struct{ Done int }
	saved, goOn := make(chan struct{}), make(chan struct{})
	var seen []mark
	k.onTask(func(ctx context.Context, job *engine.Job[task]) (any, error) {
		var m mark
		found, err := job.Checkpoint(&m)
		if err != nil || found != (job.Attempt > 1 || len(seen) > 0) {
			t.Errorf("found %v: %v", found, err)
		}
		seen = append(seen, m)
		m.Done += 10
		if err := job.SetProgress(ctx, float64(m.Done)/30, m); err != nil {
			return nil, err
		}
		switch len(seen) {
		case 1:
			saved <- struct{}{}
			<-goOn
			return nil, errBoom
		case 2:
			return nil, engine.Snooze(time.Millisecond)
		}
		return nil, job.SetProgress(ctx, 1, nil)
	})
	k.work(engine.WorkerConfig{Backoff: fast(), PollInterval: 10 * time.Millisecond})
	id := k.insert(tree.New(task{})).ID
	receive(t, saved)
	row := k.await(id, tree.Running)
	require.InDelta(t, 1.0/3, *row.Progress, 1e-6)
	require.JSONEq(t, `{"Done":10}`, string(row.Checkpoint))
	close(goOn)
	row = k.await(id, tree.Completed)
	require.Equal(t, []mark{{0}, {10}, {20}}, seen)
	require.InDelta(t, 1, *row.Progress, 1e-6)
	require.JSONEq(t, `{"Done":30}`, string(row.Checkpoint), "without a new one the old one stays")
}

func TestAFractionTooSmallToBeStoredIsZeroInEveryProtocol(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	config, err := pgxpool.ParseConfig(db.URL)
	require.NoError(t, err)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	k := newKitOn(t, db, pool)
	k.onTask(func(ctx context.Context, job *engine.Job[task]) (any, error) {
		return nil, job.SetProgress(ctx, 1e-320, "begun")
	})
	k.work(engine.WorkerConfig{})
	row := k.await(k.insert(tree.New(task{}, tree.MaxAttempts(1))).ID, tree.Completed)
	require.Zero(t, *row.Progress)
	require.JSONEq(t, `"begun"`, string(row.Checkpoint))
}

func TestProgressIsCheckedBeforeItIsWritten(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	type wrong struct {
		fraction   float64
		checkpoint any
		message    string
	}
	all := []wrong{
		{-0.1, nil, "outside 0 to 1"},
		{1.1, nil, "outside 0 to 1"},
		{math.NaN(), nil, "outside 0 to 1"},
		{0.5, strings.Repeat("x", tree.MaxCheckpointBytes), "more than 65536"},
		{0.5, "a\x00b", "NUL"},
		{0.5, "\xff", "UTF-8"},
		{0.5, func() {}, "does not encode as JSON"},
	}
	errs := make(chan error, len(all))
	k.onTask(func(ctx context.Context, job *engine.Job[task]) (any, error) {
		for _, w := range all {
			errs <- job.SetProgress(ctx, w.fraction, w.checkpoint)
		}
		return nil, nil
	})
	k.work(engine.WorkerConfig{})
	row := k.await(k.insert(tree.New(task{})).ID, tree.Completed)
	for _, w := range all {
		require.ErrorContains(t, receive(t, errs), w.message)
	}
	require.Nil(t, row.Progress)
	require.Nil(t, row.Checkpoint)
	require.ErrorContains(t, (&engine.JobInfo{}).SetProgress(t.Context(), 1, nil), "not run by a worker")
}

func TestALostClaimRecordsNoProgressAndEndsItsHandler(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started, lost, errs := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	k.onTask(func(ctx context.Context, job *engine.Job[task]) (any, error) {
		close(started)
		<-lost
		errs <- job.SetProgress(ctx, 0.5, "mine")
		<-ctx.Done()
		errs <- context.Cause(ctx)
		return "mine", nil
	})
	k.work(engine.WorkerConfig{Lease: time.Hour, PollInterval: time.Hour, Queues: map[string]engine.QueueConfig{tree.DefaultQueue: {MaxRunning: 1}}})
	id := k.insert(tree.New(task{})).ID
	receive(t, started)
	// Others take the job: it is theirs now, under a claim of theirs.
	k.exec(`INSERT INTO coppice.workers (id, expires_at, pid, name, host, queues, kinds) VALUES (999, now() + interval '1 hour', 1, 'they', 'there', '{}', '{}')`)
	k.exec(`UPDATE coppice.jobs SET claim_seq = claim_seq + 1, worker_id = 999 WHERE id = $1`, int64(id))
	close(lost)
	require.ErrorIs(t, receive(t, errs), engine.ErrClaimLost)
	require.ErrorIs(t, receive(t, errs), engine.ErrClaimLost)
	row := k.await(id, tree.Running)
	require.Nil(t, row.Progress)
	require.Nil(t, row.Checkpoint)
}

func TestAGuardSkipsWorkThatTheWorldHasOvertaken(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	ran := make(chan int, 10)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		ran <- job.Args.N
		return job.Args.N, nil
	}, engine.Guard(func(_ context.Context, job *engine.Job[task]) (string, error) {
		switch job.Args.N {
		case 1:
			return "the album is back\x00", nil
		case 2:
			if job.Attempt == 1 {
				return "ignored beside an error", errBoom
			}
		case 3:
			if job.Attempt == 1 {
				panic("no such table")
			}
		}
		return "", nil
	}))
	k.onRoll(func(context.Context, *engine.Job[roll], *engine.Children) (any, error) {
		t.Error("a guarded finalizer ran")
		return nil, nil
	}, engine.Guard(func(context.Context, *engine.Job[roll]) (string, error) { return "nothing to do", nil }))
	k.work(engine.WorkerConfig{Backoff: fast(), PollInterval: 10 * time.Millisecond})
	r := k.insert(tree.New(roll{}).Add(tree.New(task{1}), tree.New(task{2}), tree.New(task{3})))
	root := k.await(r.ID, tree.Completed)
	require.True(t, root.Skipped)
	require.Equal(t, "nothing to do", root.Error)
	require.Equal(t, 3, root.Completed)
	skipped := k.await(r.IDs[1], tree.Completed)
	require.True(t, skipped.Skipped)
	require.Equal(t, "the album is back␀", skipped.Error)
	require.Nil(t, skipped.Result)
	for i := 2; i <= 3; i++ {
		row := k.await(r.IDs[i], tree.Completed)
		require.False(t, row.Skipped)
		require.Empty(t, row.Error)
		require.Len(t, k.failures(r.IDs[i]), 1)
	}
	require.Equal(t, tree.OutcomePanic, k.failures(r.IDs[3])[0].Outcome)
	require.ElementsMatch(t, []int{2, 3}, []int{receive(t, ran), receive(t, ran)})
}

func TestAGuardOfOtherArgsIsRefused(t *testing.T) {
	t.Parallel()
	reg := engine.NewRegistry()
	work := func(context.Context, *engine.Job[task]) (any, error) { return nil, errors.New("never") }
	err := engine.Work(reg, work, engine.Guard(func(context.Context, *engine.Job[roll]) (string, error) { return "", nil }))
	require.ErrorContains(t, err, "for other args than engine_test.task")
	err = engine.Work(reg, work, engine.Guard[task](nil))
	require.ErrorContains(t, err, "the guard is nil")
}
