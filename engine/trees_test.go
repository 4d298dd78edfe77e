package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// TestFanOutsOfEverySizeRollUpAtEveryDepthAndPlace puts one fan-out of 0, 1 or 2 children at each depth, first,
// between and behind leaves, in one forest.
func TestFanOutsOfEverySizeRollUpAtEveryDepthAndPlace(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	sums(k)
	var nodes []*tree.Node
	var names []string
	want := []int{}
	for _, size := range []int{0, 1, 2} {
		for depth := 1; depth <= 4; depth++ {
			for place, before := range map[string]int{"first": 0, "middle": 1, "last": 2} {
				inner := tree.New(sum{}).Add()
				for range size {
					inner.Add(tree.New(leaf{100}))
				}
				total := 100 * size
				for range depth - 1 {
					around := []*tree.Node{tree.New(leaf{1}), tree.New(leaf{2})}
					outer := tree.New(sum{}).Add(around[:before]...)
					inner = outer.Add(inner).Add(around[before:]...)
					total += 3
				}
				nodes, want = append(nodes, inner), append(want, total)
				names = append(names, fmt.Sprintf("%d children at depth %d, %s", size, depth, place))
			}
		}
	}
	receipts, err := k.InsertMany(t.Context(), nodes...)
	require.NoError(t, err)
	ready := one[int](k, `SELECT count(*) FROM coppice.jobs WHERE kind = 'sum' AND state = 'ready'`)
	require.Equal(t, 12, ready, "an empty fan-out is ready at once at every depth")
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	for i, r := range receipts {
		require.Equal(t, fmt.Sprint(want[i]), string(k.await(r.ID, tree.Completed).Result), names[i])
	}
	require.Equal(t, len(nodes), one[int](k, `SELECT count(*) FROM coppice.history WHERE parent_id IS NULL`))
	require.Zero(t, one[int](k, `SELECT count(*) FROM coppice.results`))
	require.Equal(t, 1, one[int](k, `SELECT max(attempt) FROM coppice.history`), "no finalizer ran twice")
}

func TestADeadChildHoldsAWaitingParentUpAndSaysSinceWhen(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		if job.Args.N == 1 {
			return nil, engine.Fatal(errBoom)
		}
		return job.Args.N, nil
	})
	k.onRoll(func(context.Context, *engine.Job[roll], *engine.Children) (any, error) {
		t.Error("the finalizer ran")
		return nil, nil
	})
	k.work(engine.WorkerConfig{})
	r := k.insert(tree.New(roll{}).Add(tree.New(roll{1}).Add(tree.New(task{1}), tree.New(task{2}))))
	dead := k.await(r.IDs[2], tree.Dead)
	k.await(r.IDs[3], tree.Completed)
	inner := k.await(r.IDs[1], tree.Waiting)
	require.Equal(t, 0, inner.Pending)
	require.Equal(t, 1, inner.Dead)
	require.Equal(t, 1, inner.Completed)
	require.Equal(t, *dead.FailedAt, *inner.StalledAt)
	outer := k.await(r.ID, tree.Waiting)
	require.Equal(t, 1, outer.Pending)
	require.Nil(t, outer.StalledAt, "it waits for a live child, which is what stalls")
	require.Equal(t, 1, one[int](k, `SELECT count(*) FROM coppice.results`), "the sibling's result is kept")
}

func TestAParentThatProceedsListsItsDeadChildren(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		switch job.Args.N {
		case 1:
			return nil, engine.Fatal(errBoom)
		case 2:
			return nil, fmt.Errorf("twice: %w", errBoom)
		}
		return job.Args.N, nil
	})
	type listed struct {
		kids engine.Children
		dead []engine.DeadChild
		got  []int
	}
	seen := make(chan listed, 1)
	k.onRoll(func(ctx context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		var l listed
		for d, err := range kids.DeadJobs(ctx) {
			if err != nil {
				return nil, err
			}
			l.dead = append(l.dead, d)
		}
		for r, err := range engine.Results[int](ctx, kids) {
			if err != nil {
				return nil, err
			}
			l.got = append(l.got, r.Value)
		}
		l.kids = engine.Children{Completed: kids.Completed, Dead: kids.Dead, Cancelled: kids.Cancelled, Removed: kids.Removed}
		seen <- l
		return nil, nil
	})
	k.work(engine.WorkerConfig{Backoff: fast()})
	r := k.insert(tree.New(roll{}, tree.OnDead(tree.Proceed)).Add(
		tree.New(task{1}, tree.Key("one")), tree.New(task{5}), tree.New(task{2}, tree.MaxAttempts(2)), tree.New(task{6})))
	got := receive(t, seen)
	require.Equal(t, engine.Children{Completed: 2, Dead: 2}, got.kids)
	require.Equal(t, []engine.DeadChild{
		{ID: r.IDs[1], Kind: "task", Key: "one", Reason: tree.ReasonFatal, Error: "boom"},
		{ID: r.IDs[3], Kind: "task", Reason: tree.ReasonAttemptsSpent, Error: "twice: boom"},
	}, got.dead)
	require.Equal(t, []int{5, 6}, got.got)
	require.Nil(t, k.await(r.ID, tree.Completed).StalledAt)
	require.NotZero(t, k.await(r.IDs[1], tree.Dead), "it is still there to be looked at")
}

func TestAChildThatFailsAndThenSucceedsHasCompleted(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		if job.Attempt < 3 {
			return nil, errBoom
		}
		return "at last", nil
	})
	k.onRoll(func(ctx context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		n := 0
		for _, err := range engine.Results[string](ctx, kids) {
			if n++; err != nil {
				return nil, err
			}
		}
		for _, err := range kids.DeadJobs(ctx) {
			if n += 100; err != nil {
				return nil, err
			}
		}
		return []int{kids.Completed, kids.Dead, kids.Cancelled, kids.Removed, n}, nil
	})
	k.work(engine.WorkerConfig{Backoff: fast()})
	r := k.insert(tree.New(roll{}, tree.OnDead(tree.Proceed)).Add(tree.New(task{})))
	require.Equal(t, "[1,0,0,0,1]", string(k.await(r.ID, tree.Completed).Result))
}

func TestResultsComeInChildOrderAcrossPages(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const children = 2_500
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		if job.Args.N%100 == 7 {
			return nil, nil // no result: not among the results
		}
		return job.Args.N, nil
	})
	k.onRoll(func(ctx context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		want, last, broke := 0, tree.ID(0), 0
		for r, err := range engine.Results[int](ctx, kids) {
			if err != nil {
				return nil, err
			}
			for want%100 == 7 {
				want++
			}
			if r.Value != want || r.ID <= last || r.Kind != "task" {
				return nil, engine.Fatal(fmt.Errorf("got %+v, want %d behind %d", r, want, last))
			}
			want, last = want+1, r.ID
		}
		for _, err := range engine.Results[int](ctx, kids) {
			if broke++; err != nil || broke == 1_200 {
				break // leaving early leaks nothing
			}
		}
		return []int{want, broke, kids.Completed}, nil
	})
	k.work(engine.WorkerConfig{})
	root := tree.New(roll{})
	for i := range children {
		root.Add(tree.New(task{i}))
	}
	row := k.await(k.insert(root).ID, tree.Completed)
	require.Equal(t, "[2500,1200,2500]", string(row.Result))
}

func TestAResultOfAnotherTypeIsAnErrorOfThatChildAlone(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		if job.Args.N == 1 {
			return "text", nil
		}
		return job.Args.N, nil
	})
	k.onRoll(func(ctx context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		var out []string
		for r, err := range engine.Results[int](ctx, kids) {
			out = append(out, fmt.Sprintf("%d %s %d %v", r.ID, r.Key, r.Value, err != nil))
		}
		for r, err := range engine.Results[json.RawMessage](ctx, kids) {
			out = append(out, fmt.Sprintf("%s %v", r.Value, err))
		}
		return out, nil
	})
	k.work(engine.WorkerConfig{})
	r := k.insert(tree.New(roll{}).Add(tree.New(task{}, tree.Key("a")), tree.New(task{1}, tree.Key("b")), tree.New(task{2})))
	var got []string
	require.NoError(t, json.Unmarshal(k.await(r.ID, tree.Completed).Result, &got))
	require.Equal(t, []string{
		fmt.Sprintf("%d a 0 false", r.IDs[1]), fmt.Sprintf("%d b 0 true", r.IDs[2]), fmt.Sprintf("%d  2 false", r.IDs[3]),
		`0 <nil>`, `"text" <nil>`, `2 <nil>`,
	}, got)
}

func TestAFinalizerReadsTheSameResultsAgainWhenItIsRetried(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]error{"until it completes": nil, "until it is dead": engine.Fatal(errBoom)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			read := make(chan int, 3)
			k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) { return job.Args.N, nil })
			k.onRoll(func(ctx context.Context, job *engine.Job[roll], kids *engine.Children) (any, error) {
				sum := 0
				for r, err := range engine.Results[int](ctx, kids) {
					if err != nil {
						return nil, err
					}
					sum += r.Value
				}
				read <- sum
				switch job.Attempt {
				case 1:
					return nil, errBoom
				case 2:
					panic("again")
				}
				return sum, last
			})
			k.work(engine.WorkerConfig{Backoff: fast()})
			r := k.insert(tree.New(roll{}).Add(tree.New(task{3}), tree.New(task{4})))
			for range 3 {
				require.Equal(t, 7, receive(t, read))
			}
			if last == nil {
				require.Equal(t, "7", string(k.await(r.ID, tree.Completed).Result))
				require.Zero(t, one[int](k, `SELECT count(*) FROM coppice.results`))
				return
			}
			row := k.await(r.ID, tree.Dead)
			require.Equal(t, 2, row.Completed)
			require.Equal(t, 2, one[int](k, `SELECT count(*) FROM coppice.results`), "a restore will want them")
		})
	}
}

func TestChildrenAndFinalizerMayShareAKind(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	engine.MustWork(k.reg, worksAlbums)
	engine.MustFinalize(k.reg, finalizesAlbums)
	k.work(engine.WorkerConfig{})
	r := k.insert(tree.New(album{}).Add(tree.New(album{}), tree.New(album{}).Add(tree.New(album{}))))
	require.Equal(t, `"finalized"`, string(k.await(r.ID, tree.Completed).Result))
	require.Equal(t, `"finalized"`, string(k.await(r.IDs[2], tree.Completed).Result))
	require.Equal(t, `"worked"`, string(k.await(r.IDs[3], tree.Completed).Result))
}

func TestAJobThatAHandlerInsertsIsNoMemberOfItsTree(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	outside := make(chan engine.Receipt, 10)
	k.onTask(func(ctx context.Context, job *engine.Job[task]) (any, error) {
		if job.Args.N > 0 {
			r, err := job.Client().Insert(ctx, tree.New(task{0}))
			outside <- r
			return nil, err
		}
		return nil, nil
	})
	k.onRoll(func(_ context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		return kids.Total(), nil
	})
	k.work(engine.WorkerConfig{})
	r := k.insert(tree.New(roll{}).Add(tree.New(task{1}), tree.New(task{2})))
	row := k.await(r.ID, tree.Completed)
	require.Equal(t, "2", string(row.Result))
	for range 2 {
		other := k.await(receive(t, outside).ID, tree.Completed)
		require.Equal(t, other.ID, other.RootID)
		require.Zero(t, other.ParentID)
	}
}

func TestAParentWithADueTimeWaitsForItAfterItsChildren(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const delay = 300 * time.Millisecond
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return 1, nil })
	k.onRoll(func(_ context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		return kids.Completed, nil
	})
	k.work(engine.WorkerConfig{PollInterval: time.Hour}) // only what the settle tells wakes it
	soon := k.insert(tree.New(roll{}, tree.Delay(delay)).Add(tree.New(task{})))
	late := k.insert(tree.New(roll{}, tree.Delay(time.Hour)).Add(tree.New(task{})))
	row := k.await(soon.ID, tree.Completed)
	require.False(t, row.StartedAt.Before(row.RunAt))
	require.GreaterOrEqual(t, row.RunAt.Sub(row.CreatedAt), delay)
	k.await(late.IDs[1], tree.Completed)
	row = k.await(late.ID, tree.Scheduled)
	require.Zero(t, row.Pending)
	require.Equal(t, time.Hour, row.RunAt.Sub(row.CreatedAt))
}

func TestAChildWithADueTimeHoldsItsParentTillThen(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	sums(k)
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	r := k.insert(tree.New(sum{}).Add(tree.New(leaf{1}), tree.New(leaf{2}, tree.Delay(200*time.Millisecond))))
	row := k.await(r.ID, tree.Completed)
	require.Equal(t, "3", string(row.Result))
	require.GreaterOrEqual(t, row.StartedAt.Sub(row.CreatedAt), 200*time.Millisecond)
}
