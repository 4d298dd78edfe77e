package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

var errBoom = errors.New("boom")

func TestAJobThatSucceedsIsInTheHistoryWithItsResult(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) { return job.Args, nil })
	k.work(engine.WorkerConfig{})
	row := k.await(k.insert(tree.New(task{7})).ID, tree.Completed)
	require.Equal(t, store.PlaceHistory, row.Place)
	require.JSONEq(t, `{"n":7}`, string(row.Result))
	require.Equal(t, 1, row.Attempt)
	require.Empty(t, k.failures(row.ID))
}

func TestAJobStartsExactlyAsOftenAsItMayAndThenIsOneDeadLetter(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			starts := make(chan int, 100)
			k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
				starts <- job.Attempt
				return nil, fmt.Errorf("attempt %d: %w", job.Attempt, errBoom)
			})
			w := k.work(engine.WorkerConfig{Backoff: fast()})
			row := k.await(k.insert(tree.New(task{}, tree.MaxAttempts(limit))).ID, tree.Dead)
			require.Equal(t, tree.ReasonAttemptsSpent, row.Reason)
			require.Equal(t, limit, row.Attempt)
			require.Len(t, starts, limit)
			require.Equal(t, fmt.Sprintf("attempt %d: boom", limit), row.Error)
			failures := k.failures(row.ID)
			require.Len(t, failures, limit)
			for i, f := range failures {
				require.Equal(t, i+1, receive(t, starts))
				require.Equal(t, i+1, f.Attempt)
				require.Equal(t, tree.OutcomeError, f.Outcome)
				require.Equal(t, fmt.Sprintf("attempt %d: boom", i+1), f.Error)
				require.Equal(t, w.ID(), f.WorkerID)
				require.Empty(t, f.Stack)
				if i > 0 {
					require.True(t, failures[i-1].At.Before(f.At))
				}
			}
			require.Equal(t, 1, one[int](k, `SELECT count(*) FROM coppice.dead_jobs`))
		})
	}
}

func TestFatalGoesToTheDeadLetterQueueAtOnce(t *testing.T) {
	t.Parallel()
	row := newKit(t).fails(engine.Fatal(errBoom), tree.Dead)
	require.Equal(t, tree.ReasonFatal, row.Reason)
	require.Equal(t, 1, row.Attempt)
	require.Equal(t, "boom", row.Error)
}

func TestFatalOfNothingIsFatal(t *testing.T) {
	t.Parallel()
	row := newKit(t).fails(engine.Fatal(nil), tree.Dead)
	require.Equal(t, tree.ReasonFatal, row.Reason)
	require.Equal(t, "fatal", row.Error)
}

func TestRetryAfterReplacesTheBackoffWithinItsBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ asked, want time.Duration }{
		"asked":         {40 * time.Minute, 40 * time.Minute},
		"above the cap": {1_000 * time.Hour, 2 * time.Hour},
		"longest":       {1<<63 - 1, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			row := k.fails(engine.RetryAfter(c.asked, errBoom), tree.Scheduled,
				tree.WithBackoff(tree.Backoff{Base: time.Minute, Cap: 2 * time.Hour}))
			require.Equal(t, 1, row.Attempt, "the attempt counts")
			failures := k.failures(row.ID)
			require.Len(t, failures, 1)
			require.Equal(t, "boom", failures[0].Error)
			require.Equal(t, c.want, row.RunAt.Sub(failures[0].At))
		})
	}
}

func TestRetryAfterLessThanNothingIsAtOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		if job.Attempt < 3 {
			return nil, engine.RetryAfter(-time.Hour, nil)
		}
		return nil, nil
	})
	k.work(engine.WorkerConfig{PollInterval: time.Hour}) // the default backoff would take seconds
	row := k.await(k.insert(tree.New(task{})).ID, tree.Completed)
	require.Equal(t, 3, row.Attempt)
	require.Equal(t, "retry after -1h0m0s", k.failures(row.ID)[0].Error)
}

func TestARetryPastTheAgeBudgetIsADeadLetterInstead(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"by backoff":      errBoom,
		"by retry after":  engine.RetryAfter(2*time.Minute, errBoom),
		"above every cap": engine.RetryAfter(1<<63-1, errBoom),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			row := k.fails(err, tree.Dead, tree.MaxAge(time.Minute), tree.WithBackoff(tree.Backoff{Base: 90 * time.Second}))
			require.Equal(t, tree.ReasonAgeSpent, row.Reason)
			require.Equal(t, 1, row.Attempt)
			require.Equal(t, "boom", row.Error)
			require.Equal(t, tree.OutcomeError, k.failures(row.ID)[0].Outcome)
		})
	}
}

func TestTheAgeBudgetCountsFromTheInsertNotFromTheAttempt(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	id := k.insert(tree.New(task{}, tree.MaxAge(time.Minute))).ID
	k.exec(`UPDATE coppice.jobs SET created_at = created_at - interval '59.5 seconds' WHERE id = $1`, id)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, errBoom })
	k.work(engine.WorkerConfig{}) // a second of backoff is more than what is left
	require.Equal(t, tree.ReasonAgeSpent, k.await(id, tree.Dead).Reason)
}

func TestARetryWithinTheAgeBudgetIsMade(t *testing.T) {
	t.Parallel()
	row := newKit(t).fails(engine.RetryAfter(30*time.Second, errBoom), tree.Scheduled, tree.MaxAge(time.Minute),
		tree.WithBackoff(tree.Backoff{Cap: time.Hour}))
	require.Equal(t, 1, row.Attempt)
}

func TestTheLastAttemptIsSpentBeforeTheAgeIs(t *testing.T) {
	t.Parallel()
	row := newKit(t).fails(engine.RetryAfter(time.Hour, errBoom), tree.Dead, tree.MaxAttempts(1), tree.MaxAge(time.Second),
		tree.WithBackoff(tree.Backoff{Cap: time.Hour}))
	require.Equal(t, tree.ReasonAttemptsSpent, row.Reason)
}

func TestASnoozeCostsNothing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const snoozes = 10
	attempts := make(chan int, snoozes+1)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		attempts <- job.Attempt
		if len(attempts) <= snoozes {
			return nil, engine.Snooze(time.Millisecond)
		}
		return nil, nil
	})
	rolled := make(chan int, 1)
	k.onRoll(func(_ context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		rolled <- kids.Completed
		return nil, nil
	})
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	r := k.insert(tree.New(roll{}).Add(tree.New(task{}, tree.MaxAttempts(1))))
	require.Equal(t, 1, receive(t, rolled))
	require.Len(t, attempts, snoozes+1)
	for range snoozes + 1 {
		require.Equal(t, 1, receive(t, attempts), "the attempt is given back")
	}
	parent := k.await(r.ID, tree.Completed)
	require.Equal(t, 1, parent.Attempt)
	child := k.await(r.IDs[1], tree.Completed)
	require.Equal(t, 1, child.Attempt)
	require.Equal(t, snoozes, child.Snoozes)
	require.Empty(t, k.failures(child.ID))
}

func TestARowDoesNotGrowWithItsSnoozes(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	n := make(chan struct{}, 1_000)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) {
		n <- struct{}{}
		if len(n) == 1 || len(n) == 300 {
			return nil, engine.Snooze(time.Hour)
		}
		return nil, engine.Snooze(0)
	})
	k.work(engine.WorkerConfig{})
	id := k.insert(tree.New(task{}, tree.Meta("k", "v"))).ID
	size := func() int { return one[int](k, `SELECT pg_column_size(j.*) FROM coppice.jobs j WHERE id = $1`, id) }
	k.await(id, tree.Scheduled)
	first := size()
	k.exec(`UPDATE coppice.jobs SET run_at = now() WHERE id = $1`, id)
	k.Wake(tree.DefaultQueue)
	k.eventually(func() bool { return len(n) == 300 }, "300 snoozes")
	row := k.await(id, tree.Scheduled)
	require.Equal(t, 300, row.Snoozes)
	require.Zero(t, row.Attempt)
	require.Equal(t, first, size())
}

func TestASnoozedParentWaitsForNothingElse(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	sums := make(chan int, 2)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) { return job.Args.N, nil })
	k.onRoll(func(ctx context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		sum := 0
		for r, err := range engine.Results[int](ctx, kids) {
			if err != nil {
				return nil, err
			}
			sum += r.Value
		}
		if sums <- sum; len(sums) == 1 {
			return nil, engine.Snooze(time.Millisecond)
		}
		return sum, nil
	})
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	r := k.insert(tree.New(roll{}).Add(tree.New(task{3}), tree.New(task{4})))
	row := k.await(r.ID, tree.Completed)
	require.Equal(t, 7, receive(t, sums))
	require.Equal(t, 7, receive(t, sums), "the results are still there")
	require.Equal(t, 1, row.Snoozes)
	require.Zero(t, one[int](k, `SELECT count(*) FROM coppice.results`))
}

func TestAJobMayCancelItself(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	row := k.fails(engine.Cancel(errBoom), tree.Cancelled)
	require.Equal(t, store.PlaceHistory, row.Place)
	require.Equal(t, "boom", row.Error)
	require.Empty(t, row.Result)
	require.Empty(t, k.failures(row.ID), "a decision is no failure")
}

func TestACancelledChildCountsAsCancelledAndLetsItsParentRun(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		if job.Args.N == 1 {
			return "not stored", engine.Cancel(nil)
		}
		return job.Args.N, nil
	})
	kids, values := make(chan engine.Children, 1), make(chan int, 2)
	k.onRoll(func(ctx context.Context, _ *engine.Job[roll], c *engine.Children) (any, error) {
		for r, err := range engine.Results[int](ctx, c) {
			if err != nil {
				return nil, err
			}
			values <- r.Value
		}
		kids <- engine.Children{Completed: c.Completed, Dead: c.Dead, Cancelled: c.Cancelled, Removed: c.Removed}
		return nil, nil
	})
	k.work(engine.WorkerConfig{})
	r := k.insert(tree.New(roll{}).Add(tree.New(task{1}), tree.New(task{2})))
	got := receive(t, kids)
	require.Equal(t, engine.Children{Completed: 1, Cancelled: 1}, got)
	require.Equal(t, 2, got.Total())
	require.Equal(t, 2, receive(t, values))
	require.Equal(t, "cancelled by its handler", k.await(r.IDs[1], tree.Cancelled).Error)
	k.await(r.ID, tree.Completed)
}

func TestAParentMayCancelItself(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return 1, nil })
	k.onRoll(func(_ context.Context, job *engine.Job[roll], kids *engine.Children) (any, error) {
		if job.Args.N == 1 {
			return nil, engine.Cancel(errBoom)
		}
		return kids.Cancelled, nil
	})
	k.work(engine.WorkerConfig{})
	r := k.insert(tree.New(roll{}).Add(tree.New(roll{1}).Add(tree.New(task{}))))
	require.Equal(t, "1", string(k.await(r.ID, tree.Completed).Result))
	k.await(r.IDs[1], tree.Cancelled)
	require.Zero(t, one[int](k, `SELECT count(*) FROM coppice.results`))
}

func TestAQueueThatKeepsNoHistoryKeepsNone(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		if job.Args.N == 1 {
			return nil, engine.Cancel(nil)
		}
		return nil, nil
	})
	k.exec(`INSERT INTO coppice.queues (name, history_retention) VALUES ('bare', '0')`)
	k.work(engine.WorkerConfig{Queues: map[string]engine.QueueConfig{"bare": {}, tree.DefaultQueue: {}}})
	bare := tree.Queue("bare")
	k.insert(tree.New(task{}, bare))
	k.insert(tree.New(task{1}, bare))
	k.insert(tree.New(task{}, tree.KeepFor(0)))
	kept := k.insert(tree.New(task{}, bare, tree.KeepFor(time.Hour)))
	k.await(kept.ID, tree.Completed)
	k.eventually(func() bool { return one[int](k, `SELECT count(*) FROM coppice.jobs`) == 0 }, "jobs are left")
	require.Equal(t, 1, one[int](k, `SELECT count(*) FROM coppice.history`))
}
