package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func TestAPausedQueueStartsNothingAndGivesBackWhatHasNotStarted(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]engine.WorkerConfig{
		"told by LISTEN":     {PollInterval: time.Hour, Lease: time.Hour},
		"seen with the beat": {PollInterval: time.Hour, Lease: time.Second, PollOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			by := store.By{Actor: "me", Reason: "the database is tired"}
			var fast atomic.Bool
			fast.Store(true)
			started, carryOn := make(chan tree.ID, 1_000), make(chan struct{})
			k.onTask(func(context.Context, *engine.Job[task]) (any, error) {
				if !fast.Load() {
					started <- 0
					<-carryOn
				}
				return nil, nil
			})
			config.Queues = map[string]engine.QueueConfig{tree.DefaultQueue: {MaxRunning: 2}}
			k.work(config)
			many := func(n int) []*tree.Node {
				nodes := make([]*tree.Node, n)
				for i := range nodes {
					nodes[i] = tree.New(task{i})
				}
				return nodes
			}
			// Short jobs first, so that the worker fetches ahead.
			_, err := k.InsertMany(t.Context(), many(300)...)
			require.NoError(t, err)
			k.eventually(func() bool { return one[int](k, `SELECT count(*) FROM coppice.history`) == 300 }, "the short jobs did not end")
			fast.Store(false)
			_, err = k.InsertMany(t.Context(), many(200)...)
			require.NoError(t, err)
			receive(t, started)
			receive(t, started)

			changed, err := k.Store().PauseQueue(t.Context(), tree.DefaultQueue, by)
			require.NoError(t, err)
			require.True(t, changed)
			changed, err = k.Store().PauseQueue(t.Context(), tree.DefaultQueue, by)
			require.NoError(t, err)
			require.False(t, changed, "it was paused already")
			k.eventually(func() bool { return one[int](k, `SELECT count(*) FROM coppice.jobs WHERE state = 'running'`) == 2 },
				"what had not started was not given back while the slots were busy")
			close(carryOn)
			k.eventually(func() bool { return one[int](k, `SELECT count(*) FROM coppice.jobs WHERE state = 'running'`) == 0 },
				"claimed jobs were not given back")
			require.Empty(t, started, "nothing started in the paused queue")
			require.Equal(t, 198, one[int](k, `SELECT count(*) FROM coppice.jobs WHERE state = 'ready' AND attempt = 0`), "at no cost")

			changed, err = k.Store().ResumeQueue(t.Context(), tree.DefaultQueue, by)
			require.NoError(t, err)
			require.True(t, changed)
			k.eventually(func() bool { return one[int](k, `SELECT count(*) FROM coppice.history`) == 500 }, "the queue did not go on")
			require.Equal(t, 1, one[int](k, `SELECT max(attempt) FROM coppice.history`))
			require.Equal(t, 2, one[int](k, `SELECT count(*) FROM coppice.audit WHERE actor = 'me' AND reason = 'the database is tired' AND queue = 'default'`))
		})
	}
}
