package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

func TestEveryProblemOfAWorkersConfigurationIsListedAtOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil })
	_, err := engine.NewWorker(k.Client, k.reg, engine.WorkerConfig{
		Queues: map[string]engine.QueueConfig{
			"": {}, "few": {MaxRunning: -1}, "many": {MaxRunning: 10_001}, "nul\x00": {}, strings.Repeat("q", 129): {}, "good": {},
		},
		PollInterval:   time.Microsecond,
		Lease:          time.Millisecond,
		Timeout:        -2,
		Backoff:        &tree.Backoff{Factor: 0.5},
		MaxResultBytes: -1,
		Middleware:     []engine.Middleware{nil, func(n engine.Next) engine.Next { return n }, nil},
	})
	for _, problem := range []string{
		"Queues: name is empty", `Queues["few"].MaxRunning: -1 is outside 1 to 10000`, `Queues["many"].MaxRunning: 10001`,
		"holds a NUL", "has 129 bytes", "PollInterval: 1µs is outside 10ms to 1h", "Lease: 1ms is outside 1s to 1h",
		"Timeout: -2ns is outside", "Backoff: factor 0.5", "MaxResultBytes: -1", "Middleware[0]: is nil", "Middleware[2]: is nil",
	} {
		require.ErrorContains(t, err, problem)
	}
	require.NotContains(t, err.Error(), "good")
}

func TestTheBoundsOfAConfigurationAreAllowed(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil })
	for _, config := range []engine.WorkerConfig{
		{},
		{Queues: map[string]engine.QueueConfig{"q": {MaxRunning: 10_000}}, PollInterval: time.Hour, Lease: time.Hour, Timeout: tree.MaxDuration, MaxResultBytes: 64 << 20},
		{Queues: slots(1), PollInterval: 10 * time.Millisecond, Lease: time.Second, Timeout: tree.NoTimeout, MaxResultBytes: 1, Grace: -1},
	} {
		_, err := engine.NewWorker(k.Client, k.reg, config)
		require.NoError(t, err)
	}
}

func TestAWorkerNeedsAClientARegistryAndAHandler(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	_, err := engine.NewWorker(nil, k.reg, engine.WorkerConfig{})
	require.ErrorContains(t, err, "needs a client")
	_, err = engine.NewWorker(k.Client, nil, engine.WorkerConfig{})
	require.ErrorContains(t, err, "a registry")
	_, err = engine.NewWorker(k.Client, k.reg, engine.WorkerConfig{})
	require.ErrorContains(t, err, "no handlers")
	_, err = engine.NewWorker(k.Client, k.reg, engine.WorkerConfig{Lease: 1})
	require.ErrorContains(t, err, "no handlers", "also beside other problems")
	require.ErrorContains(t, err, "Lease: 1ns")
}

func TestEveryProblemOfARegistrationIsListedAtOnce(t *testing.T) {
	t.Parallel()
	reg := engine.NewRegistry()
	f := func(context.Context, *engine.Job[task]) (any, error) { return nil, nil }
	engine.MustWork(reg, worksAlbums)
	err := engine.Work(reg, f, engine.Alias("", "album", "task", "x\xff"), engine.HandlerTimeout(-3), nil,
		engine.HandlerBackoff(tree.Backoff{Jitter: 2}))
	require.ErrorIs(t, err, engine.ErrRegistered)
	for _, problem := range []string{
		`"task"`, `"album"`, "alias: is empty", "not valid UTF-8", "timeout -3ns", "backoff: jitter 2", "an option is nil",
	} {
		require.ErrorContains(t, err, problem)
	}
	require.NoError(t, engine.Work(reg, f), "nothing of a refused registration is kept")
	require.ErrorIs(t, engine.Work(reg, f), engine.ErrRegistered)
	require.Panics(t, func() { engine.MustWork(reg, f) })
	require.Error(t, engine.Work[task, any](reg, nil))
	require.Error(t, engine.Work(nil, f))
	require.Error(t, engine.Finalize[task, any](reg, nil))
	require.NoError(t, engine.Finalize(reg, func(context.Context, *engine.Job[task], *engine.Children) (any, error) { return nil, nil }),
		"a kind may do both")
}

func TestAWorkerKeepsTheHandlersThatItWasMadeWith(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil })
	w, err := engine.NewWorker(k.Client, k.reg, engine.WorkerConfig{})
	require.NoError(t, err)
	engine.MustWork(k.reg, worksAlbums)
	require.NoError(t, w.Start(t.Context()))
	id := k.insert(tree.New(album{})).ID
	k.await(k.insert(tree.New(task{})).ID, tree.Completed)
	require.Equal(t, tree.Ready, k.state(id))
	require.NoError(t, w.Stop(t.Context()))
}
