package engine_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// TestDelaysGrowFromTheBaseToTheCapInTheDatabase measures what is stored, not what is computed: the due time
// less the time of the failure, both by the database's clock.
func TestDelaysGrowFromTheBaseToTheCapInTheDatabase(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	b := tree.Backoff{Base: time.Minute, Factor: 3, Cap: 20 * time.Minute, Jitter: 0.5}
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, errBoom })
	k.work(engine.WorkerConfig{})
	id := k.insert(tree.New(task{}, tree.WithBackoff(b))).ID
	for n := 1; n <= 5; n++ {
		var row *store.JobRow
		k.eventually(func() bool {
			row = k.await(id, tree.Scheduled)
			return row.Attempt == n
		}, "attempt %d", n)
		failures := k.failures(id)
		require.Len(t, failures, n)
		delay := row.RunAt.Sub(failures[n-1].At)
		step := time.Duration(float64(b.Base) * math.Pow(3, float64(n-1)))
		require.GreaterOrEqual(t, delay, min(b.Cap, step), "after failure %d", n)
		require.LessOrEqual(t, delay, min(b.Cap, step+step/2)+time.Microsecond, "after failure %d", n)
		k.exec(`UPDATE coppice.jobs SET run_at = now() WHERE id = $1`, id)
		k.Wake(tree.DefaultQueue)
	}
}

func TestABackoffIsTakenFromTheNearestThatSetsOne(t *testing.T) {
	t.Parallel()
	of := func(d time.Duration) *tree.Backoff { return &tree.Backoff{Base: d, Cap: d} }
	job, registration, worker := of(1*time.Minute), of(2*time.Minute), of(3*time.Minute)
	for name, c := range map[string]struct {
		job, registration, worker *tree.Backoff
		want                      time.Duration
	}{
		"the default":        {nil, nil, nil, time.Second},
		"the worker's":       {nil, nil, worker, 3 * time.Minute},
		"the registration's": {nil, registration, worker, 2 * time.Minute},
		"the job's":          {job, registration, worker, time.Minute},
		"the job's default":  {&tree.Backoff{}, registration, worker, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			var atHandler []engine.HandlerOption
			if c.registration != nil {
				atHandler = append(atHandler, engine.HandlerBackoff(*c.registration))
			}
			k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, errBoom }, atHandler...)
			k.work(engine.WorkerConfig{Backoff: c.worker})
			var atJob []tree.Option
			if c.job != nil {
				atJob = append(atJob, tree.WithBackoff(*c.job))
			}
			id := k.insert(tree.New(task{}, atJob...)).ID
			k.eventually(func() bool { return len(k.failures(id)) > 0 }, "no failure")
			failure := k.failures(id)[0]
			runAt := one[time.Time](k, `SELECT run_at FROM coppice.jobs WHERE id = $1`, id)
			require.GreaterOrEqual(t, runAt.Sub(failure.At), c.want)
			require.LessOrEqual(t, runAt.Sub(failure.At), c.want+c.want/10+time.Microsecond)
		})
	}
}

func TestADelayBelowAMillisecondIsADelay(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, errBoom },
		engine.HandlerBackoff(tree.Backoff{Base: 1_500 * time.Microsecond, Cap: 1_500 * time.Microsecond}))
	k.work(engine.WorkerConfig{})
	id := k.insert(tree.New(task{}, tree.MaxAttempts(5))).ID
	k.await(id, tree.Dead)
	failures := k.failures(id)
	for i := 1; i < len(failures); i++ {
		require.GreaterOrEqual(t, failures[i].At.Sub(failures[i-1].At), 1_500*time.Microsecond)
	}
}

func TestARetryComesWhenItIsDueAndNotWithTheNextPoll(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		if job.Attempt < 4 {
			return nil, errBoom
		}
		return nil, nil
	})
	k.work(engine.WorkerConfig{PollInterval: time.Hour, Backoff: &tree.Backoff{Base: 20 * time.Millisecond}})
	k.await(k.insert(tree.New(task{})).ID, tree.Completed)
}
