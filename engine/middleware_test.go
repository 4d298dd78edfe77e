package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// under runs one task under the middleware and returns when it is in the state.
func (k *kit) under(state tree.State, f func(context.Context, *engine.Job[task]) (any, error), middleware ...engine.Middleware) tree.ID {
	k.t.Helper()
	k.onTask(f)
	k.work(engine.WorkerConfig{Middleware: middleware, Backoff: fast()})
	id := k.insert(tree.New(task{5}, tree.MaxAttempts(1), tree.Tags("a"), tree.Meta("k", "v"))).ID
	k.await(id, state)
	return id
}

func TestTheFirstMiddlewareIsTheOutermost(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	calls := make(chan string, 10)
	layer := func(name string) engine.Middleware {
		return func(next engine.Next) engine.Next {
			return func(ctx context.Context, job *engine.JobInfo) error {
				calls <- name + " in"
				err := next(ctx, job)
				calls <- fmt.Sprintf("%s out: %v", name, err)
				return err
			}
		}
	}
	k.under(tree.Dead, func(context.Context, *engine.Job[task]) (any, error) {
		calls <- "handler"
		return nil, errBoom
	}, layer("a"), layer("b"))
	close(calls)
	var got []string
	for c := range calls {
		got = append(got, c)
	}
	require.Equal(t, []string{"a in", "b in", "handler", "b out: boom", "a out: boom"}, got)
}

type ctxKey struct{}

func TestMiddlewareSeesTheJobAndMayChangeTheContext(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	infos := make(chan *engine.JobInfo, 1)
	values := make(chan any, 1)
	id := k.under(tree.Completed, func(ctx context.Context, job *engine.Job[task]) (any, error) {
		values <- ctx.Value(ctxKey{})
		if engine.JobFrom(ctx) != job.JobInfo {
			return nil, engine.Fatal(errors.New("the context belongs to another job"))
		}
		return nil, nil
	}, func(next engine.Next) engine.Next {
		return func(ctx context.Context, job *engine.JobInfo) error {
			infos <- job
			return next(context.WithValue(ctx, ctxKey{}, "here"), job)
		}
	})
	require.Equal(t, "here", receive(t, values))
	info := receive(t, infos)
	require.Equal(t, id, info.ID)
	require.Equal(t, id, info.RootID)
	require.Zero(t, info.ParentID)
	require.Equal(t, "task", info.Kind)
	require.Equal(t, tree.DefaultQueue, info.Queue)
	require.Equal(t, 1, info.Attempt)
	require.Equal(t, 1, info.MaxAttempts)
	require.Zero(t, info.Round)
	require.Equal(t, []string{"a"}, info.Tags)
	require.Equal(t, map[string]string{"k": "v"}, info.Meta())
	require.Equal(t, k.await(id, tree.Completed).CreatedAt.UTC(), info.CreatedAt.UTC())
	require.Len(t, info.LogAttrs(), 5)
	require.Nil(t, engine.JobFrom(context.Background()))
}

func TestMiddlewareMayReplaceTheOutcome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		returns error
		replace func(error) error
		state   tree.State
	}{
		"a success fails":           {nil, func(error) error { return engine.Fatal(errBoom) }, tree.Dead},
		"a failure is swallowed":    {errBoom, func(error) error { return nil }, tree.Completed},
		"a failure is made fatal":   {errBoom, func(err error) error { return engine.Fatal(err) }, tree.Dead},
		"a fatal error is put off":  {engine.Fatal(errBoom), func(error) error { return engine.Snooze(1 << 50) }, tree.Scheduled},
		"a success is called off":   {nil, func(error) error { return engine.Cancel(nil) }, tree.Cancelled},
		"an error is only wrapped":  {engine.Cancel(nil), func(err error) error { return fmt.Errorf("in album: %w", err) }, tree.Cancelled},
		"an error is only observed": {engine.Fatal(nil), func(err error) error { return err }, tree.Dead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newKit(t).under(c.state, func(context.Context, *engine.Job[task]) (any, error) { return "result", c.returns },
				func(next engine.Next) engine.Next {
					return func(ctx context.Context, job *engine.JobInfo) error { return c.replace(next(ctx, job)) }
				})
		})
	}
}

func TestMiddlewareThatDoesNotCallTheHandlerSkipsIt(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	id := k.under(tree.Completed, func(context.Context, *engine.Job[task]) (any, error) {
		t.Error("the handler ran")
		return nil, nil
	}, func(engine.Next) engine.Next {
		return func(context.Context, *engine.JobInfo) error { return nil }
	})
	require.Empty(t, k.await(id, tree.Completed).Result)
}

func TestAPanicInMiddlewareFailsTheAttempt(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]engine.Middleware{
		"before": func(engine.Next) engine.Next {
			return func(context.Context, *engine.JobInfo) error { panic("in middleware") }
		},
		"after": func(next engine.Next) engine.Next {
			return func(ctx context.Context, job *engine.JobInfo) error {
				_ = next(ctx, job)
				panic("in middleware")
			}
		},
		"while it is put together": func(engine.Next) engine.Next { panic("in middleware") },
		"for want of a function":   func(engine.Next) engine.Next { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			id := k.under(tree.Dead, func(context.Context, *engine.Job[task]) (any, error) { return "result", nil }, m)
			failure := k.failures(id)[0]
			require.Equal(t, tree.OutcomePanic, failure.Outcome)
			require.True(t, strings.HasPrefix(failure.Error, "panic: "))
			require.NotEmpty(t, failure.Stack)
		})
	}
}

func TestMiddlewareSeesFinalizersAndUndecodableArgsToo(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil })
	k.onRoll(func(context.Context, *engine.Job[roll], *engine.Children) (any, error) { return nil, nil })
	seen := make(chan string, 10)
	k.work(engine.WorkerConfig{Middleware: []engine.Middleware{func(next engine.Next) engine.Next {
		return func(ctx context.Context, job *engine.JobInfo) error {
			err := next(ctx, job)
			seen <- fmt.Sprintf("%s %d %v", job.Kind, job.Round, err != nil)
			return err
		}
	}}})
	r := k.insert(tree.New(roll{}).Add(tree.New(task{})))
	k.await(r.ID, tree.Completed)
	id := k.insert(tree.New(task{}, tree.Delay(1e9))).ID
	k.exec(`UPDATE coppice.jobs SET args = '[]', run_at = now() WHERE id = $1`, id)
	k.Wake(tree.DefaultQueue)
	k.await(id, tree.Dead)
	var got []string
	for range 3 {
		got = append(got, receive(t, seen))
	}
	require.Equal(t, []string{"task 0 false", "roll 1 false", "task 0 true"}, got)
}
