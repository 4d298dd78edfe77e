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

func TestASingleSlotGetsJobsByPriorityThenDueTimeThenId(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	base := time.Now().Add(-time.Hour)
	priorities := []int{tree.MinPriority, -1, 0, 1, tree.MaxPriority}
	// Job n is to run as the n-th: twelve of a priority, four of them for each of three due times. The groups
	// of four are inserted backwards, so that ids alone would give another order.
	n := 12 * len(priorities)
	for group := n/4 - 1; group >= 0; group-- {
		for i := range 4 {
			n := 4*group + i
			k.insert(tree.New(task{n}, tree.Priority(priorities[n/12])))
		}
	}
	// A due time that has passed means at once, so the past has to be written by hand.
	k.exec(`UPDATE coppice.jobs SET run_at = $1::timestamptz + ((args->>'n')::int / 4 % 3) * interval '1 minute'`, base)
	got := make(chan int, n)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		got <- job.Args.N
		return nil, nil
	})
	k.work(engine.WorkerConfig{Queues: map[string]engine.QueueConfig{tree.DefaultQueue: {MaxRunning: 1}}})
	for i := range n {
		require.Equal(t, i, receive(t, got))
	}
}

func TestNothingStartsBeforeItIsDue(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil })
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	var ids []tree.ID
	for _, ms := range []int{500, 1, 250, 50, 251, 2, 100, 10} {
		ids = append(ids, k.insert(tree.New(task{}, tree.Delay(time.Duration(ms)*time.Millisecond))).ID)
	}
	for _, id := range ids {
		row := k.await(id, tree.Completed)
		require.False(t, row.StartedAt.Before(row.RunAt), "due %v, started %v", row.RunAt, row.StartedAt)
	}
}

func TestADueTimeOutlivesItsWorkers(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil })
	first := k.work(engine.WorkerConfig{})
	id := k.insert(tree.New(task{}, tree.Delay(100*time.Millisecond))).ID
	require.NoError(t, first.Stop(t.Context()))
	k.eventually(func() bool {
		return one[bool](k, `SELECT run_at < now() FROM coppice.jobs WHERE id = $1`, id)
	}, "not due")
	require.Zero(t, k.await(id, tree.Scheduled).Attempt)
	k.work(engine.WorkerConfig{})
	k.await(id, tree.Completed)
}

func TestQueuesMayHaveAnyName(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	names := []string{
		"with spaces", " leading", "größe \U0001F333", `quo"ted'; --`, "{curly,comma}", `back\slash`,
		strings.Repeat("q", tree.MaxQueueBytes), strings.Repeat("ä", tree.MaxQueueBytes/2), "new\nline",
	}
	queues := map[string]engine.QueueConfig{}
	for _, name := range names {
		queues[name] = engine.QueueConfig{MaxRunning: 1}
	}
	got := make(chan string, len(names))
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		got <- job.Queue
		return nil, nil
	})
	k.work(engine.WorkerConfig{Queues: queues, PollInterval: time.Hour})
	for _, name := range names {
		k.insert(tree.New(task{}, tree.Queue(name)))
		require.Equal(t, name, receive(t, got))
	}
}
