package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

func TestTheJobsTimeoutEndsItsContextWithACauseOfItsOwn(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	causes := make(chan error, 2)
	k.onTask(func(ctx context.Context, _ *engine.Job[task]) (any, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	k.work(engine.WorkerConfig{Backoff: fast()})
	row := k.await(k.insert(tree.New(task{}, tree.Timeout(5*time.Millisecond), tree.MaxAttempts(2))).ID, tree.Dead)
	require.ErrorIs(t, receive(t, causes), engine.ErrTimeout)
	require.ErrorIs(t, receive(t, causes), engine.ErrTimeout)
	require.Equal(t, tree.ReasonAttemptsSpent, row.Reason, "a timeout is retried like any failure")
	for _, f := range k.failures(row.ID) {
		require.Equal(t, tree.OutcomeTimeout, f.Outcome)
		require.Equal(t, "context deadline exceeded", f.Error)
	}
}

func TestATimeoutIsTakenFromTheNearestThatSetsOne(t *testing.T) {
	t.Parallel()
	const job, registration, worker, none = 1 * time.Hour, 2 * time.Hour, 3 * time.Hour, tree.NoTimeout
	for name, c := range map[string]struct{ job, registration, worker, want time.Duration }{
		"the default":                     {0, 0, 0, tree.DefaultTimeout},
		"the worker's":                    {0, 0, worker, worker},
		"the registration's":              {0, registration, worker, registration},
		"the job's":                       {job, registration, worker, job},
		"the job's alone":                 {job, 0, 0, job},
		"the worker lifts it":             {0, 0, none, 0},
		"the registration lifts it":       {0, none, worker, 0},
		"the job lifts it":                {none, registration, worker, 0},
		"the job's where the worker's is": {job, 0, none, job},
		"the registration's over none":    {0, registration, none, registration},
		"the job's where both lift it":    {job, none, none, job},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			left := make(chan time.Duration, 1)
			k.onTask(func(ctx context.Context, _ *engine.Job[task]) (any, error) {
				deadline, ok := ctx.Deadline()
				if !ok {
					left <- 0
					return nil, nil
				}
				left <- time.Until(deadline)
				return nil, nil
			}, engine.HandlerTimeout(c.registration))
			k.work(engine.WorkerConfig{Timeout: c.worker})
			k.insert(tree.New(task{}, tree.Timeout(c.job)))
			require.InDelta(t, c.want, receive(t, left), float64(time.Minute))
		})
	}
}

func TestAHandlerThatSucceedsInSpiteOfItsTimeoutHasSucceeded(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(ctx context.Context, _ *engine.Job[task]) (any, error) {
		<-ctx.Done()
		return "late", nil
	})
	k.work(engine.WorkerConfig{})
	row := k.await(k.insert(tree.New(task{}, tree.Timeout(time.Millisecond))).ID, tree.Completed)
	require.Equal(t, `"late"`, string(row.Result))
}

func TestAControlErrorCountsAlsoAfterTheTimeout(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(ctx context.Context, _ *engine.Job[task]) (any, error) {
		<-ctx.Done()
		return nil, engine.Fatal(errors.New("gave up"))
	})
	k.work(engine.WorkerConfig{})
	row := k.await(k.insert(tree.New(task{}, tree.Timeout(time.Millisecond))).ID, tree.Dead)
	require.Equal(t, tree.ReasonFatal, row.Reason)
	require.Equal(t, tree.OutcomeError, k.failures(row.ID)[0].Outcome)
}

func TestAFinalizersTimeoutIsItsOwn(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil })
	k.onRoll(func(ctx context.Context, _ *engine.Job[roll], _ *engine.Children) (any, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}, engine.HandlerTimeout(time.Millisecond))
	k.work(engine.WorkerConfig{})
	row := k.await(k.insert(tree.New(roll{}, tree.MaxAttempts(1)).Add(tree.New(task{}))).ID, tree.Dead)
	require.Equal(t, engine.ErrTimeout.Error(), row.Error)
	require.Equal(t, tree.OutcomeTimeout, k.failures(row.ID)[0].Outcome)
}
