package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// diary records what runs.
type diary struct {
	mu      sync.Mutex // protects following fields
	running map[string]int
	most    map[string]int
	order   map[string][]int // completions
}

func newDiary() *diary {
	return &diary{running: map[string]int{}, most: map[string]int{}, order: map[string][]int{}}
}

func (l *diary) start(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[key]++
	l.most[key] = max(l.most[key], l.running[key])
}

func (l *diary) end(key string, n int, completed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[key]--
	if completed {
		l.order[key] = append(l.order[key], n)
	}
}

func TestGroupsRunInOrderAcrossProcessesWithoutWaitingForAPoll(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const groups, each = 100, 10
	l := newDiary()
	k.onTask(func(_ context.Context, job *engine.Job[task]) (_ any, err error) {
		key := fmt.Sprint(job.Args.N % groups)
		l.start(key)
		defer func() { l.end(key, job.Args.N, err == nil) }()
		switch {
		case job.Attempt == 1 && job.Args.N%7 == 0:
			return nil, errBoom // it keeps its place
		case job.Attempt == 2 && job.Args.N%14 == 0:
			return nil, engine.FanOut() // and when it comes back as a finalizer, too
		}
		return nil, nil
	})
	require.NoError(t, engine.Finalize(k.reg, func(_ context.Context, job *engine.Job[task], _ *engine.Children) (any, error) {
		key := fmt.Sprint(job.Args.N % groups)
		l.start(key)
		l.end(key, job.Args.N, true)
		return nil, nil
	}))
	var nodes []*tree.Node
	for n := range groups * each {
		nodes = append(nodes, tree.New(task{n}, tree.Group(fmt.Sprint(n%groups)), tree.Queue([]string{"a", "b"}[n/groups%2]), tree.WithBackoff(*fast())))
	}
	_, err := k.InsertMany(t.Context(), nodes...)
	require.NoError(t, err)
	config := engine.WorkerConfig{PollInterval: time.Hour, Queues: map[string]engine.QueueConfig{"a": {MaxRunning: 5}, "b": {MaxRunning: 5}}}
	k.work(config)
	other, err := engine.NewWorker(k.remote(), k.reg, config)
	require.NoError(t, err)
	require.NoError(t, other.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, other.Stop(context.Background())) })
	k.eventually(func() bool { return one[int](k, `SELECT count(*) FROM coppice.jobs`) == 0 }, "not all jobs ran")
	for g := range groups {
		key := fmt.Sprint(g)
		require.Equal(t, 1, l.most[key], "group %s", key)
		var want []int
		for i := range each {
			want = append(want, i*groups+g)
		}
		require.Equal(t, want, l.order[key], "group %s", key)
	}
}

func TestLimitsHoldAcrossProcessesAndNoPollShows(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	require.NoError(t, k.Store().SetLimit(t.Context(), "api", store.Limit{MaxRunning: 3}, me()))
	require.NoError(t, k.Store().SetLimit(t.Context(), "mail", store.Limit{Rate: 50, Burst: 5}, me()))
	_, err := k.Store().LimitQueue(t.Context(), "narrow", 4, me())
	require.NoError(t, err)
	l := newDiary()
	var starts []time.Time
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		key := job.Tags[0]
		l.start(key)
		l.start(job.Queue)
		defer l.end(key, 0, true)
		defer l.end(job.Queue, 0, true)
		if key == "mail" {
			l.mu.Lock()
			starts = append(starts, time.Now())
			l.mu.Unlock()
		}
		return nil, nil
	})
	var nodes []*tree.Node
	for n := range 100 {
		nodes = append(nodes, tree.New(task{n}, tree.Tags("api"), tree.Limit("api"), tree.Queue([]string{"wide", "narrow"}[n%2])),
			tree.New(task{n}, tree.Tags("plain"), tree.Queue("narrow")))
		if n < 40 {
			nodes = append(nodes, tree.New(task{n}, tree.Tags("mail"), tree.Limit("mail"), tree.Queue("wide")))
		}
	}
	_, err = k.InsertMany(t.Context(), nodes...)
	require.NoError(t, err)
	config := engine.WorkerConfig{PollInterval: time.Hour, Queues: map[string]engine.QueueConfig{"narrow": {MaxRunning: 10}, "wide": {MaxRunning: 10}}}
	begun := time.Now()
	k.work(config)
	other, err := engine.NewWorker(k.remote(), k.reg, config)
	require.NoError(t, err)
	require.NoError(t, other.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, other.Stop(context.Background())) })
	k.eventually(func() bool { return one[int](k, `SELECT count(*) FROM coppice.jobs`) == 0 }, "not all jobs ran")
	require.LessOrEqual(t, l.most["api"], 3)
	require.LessOrEqual(t, l.most["narrow"], 4)
	for i := range starts {
		// In the time since the beginning no more can have started than the burst and what came by the rate.
		require.LessOrEqual(t, float64(i+1), 5+50*starts[i].Sub(begun).Seconds()+1, "start %d", i)
	}
	_, err = k.Store().LimitQueue(t.Context(), "narrow", 1, me())
	require.NoError(t, err)
	rows, err := k.Store().Limits(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, rows, 2)
}
