package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// grower works by fanning out, and rolls up round by round.
type grower struct {
	Sizes []int  `json:"sizes"` // children of each round
	Keyed bool   `json:"keyed"`
	Name  string `json:"name"`
}

func (grower) Kind() string { return "grower" }

func (g grower) children(round int) []*tree.Node {
	var nodes []*tree.Node
	for n := range g.Sizes[round] {
		var options []tree.Option
		if g.Keyed {
			options = append(options, tree.Key(fmt.Sprint(n)))
		}
		nodes = append(nodes, tree.New(task{100*(round+1) + n}, options...))
	}
	return nodes
}

// grow registers handlers that fan out once for each size and then answer what each round gave.
func (k *kit) grow() {
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) { return job.Args.N, nil })
	engine.MustWork(k.reg, func(_ context.Context, job *engine.Job[grower]) (any, error) {
		return "dropped", engine.FanOut(job.Args.children(0)...)
	})
	engine.MustFinalize(k.reg, func(ctx context.Context, job *engine.Job[grower], kids *engine.Children) (any, error) {
		if job.Round < len(job.Args.Sizes) {
			return nil, fmt.Errorf("once more: %w", engine.FanOut(job.Args.children(job.Round)...))
		}
		rounds := make([][]int, job.Round)
		for r := range rounds {
			rounds[r] = []int{}
			for kid, err := range engine.Results[int](ctx, kids.InRound(r+1)) {
				if err != nil {
					return nil, err
				}
				rounds[r] = append(rounds[r], kid.Value)
			}
		}
		return rounds, nil
	})
}

func TestAJobThatFansOutWaitsForItsChildrenAndRollsThemUpRoundByRound(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.grow()
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	r := k.insert(tree.New(grower{Sizes: []int{2, 1, 0, 3}}))
	row := k.await(r.ID, tree.Completed)
	require.JSONEq(t, `[[100,101],[200],[],[400,401,402]]`, string(row.Result))
	require.Equal(t, 6, row.Completed)
	require.Equal(t, 4, row.Round)
	require.Equal(t, 1, row.Attempt, "each round has attempts of its own")
	require.Zero(t, one[int](k, `SELECT count(*) FROM coppice.results`))
	require.Zero(t, one[int](k, `SELECT count(*) FROM coppice.job_errors`), "a fan-out is no failure")
	require.Equal(t, 6, one[int](k, `SELECT count(*) FROM coppice.history WHERE root_id = $1 AND parent_id = $1`, int64(r.ID)))
}

func TestAChildMayFanOutInItsTurn(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.grow()
	var ran atomic.Int64
	k.onRoll(func(_ context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		ran.Add(1)
		return kids.Total(), nil
	})
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	r := k.insert(tree.New(roll{}).Add(tree.New(grower{Sizes: []int{3}}), tree.New(grower{Sizes: []int{0}}), tree.New(task{})))
	require.Equal(t, "3", string(k.await(r.ID, tree.Completed).Result))
	require.EqualValues(t, 1, ran.Load(), "the grandparent waits for its grandchildren")
}

func TestFanOutsOfThousandsGoInByCopy(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.grow()
	k.onRoll(func(context.Context, *engine.Job[roll], *engine.Children) (any, error) { return nil, nil })
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	r := k.insert(tree.New(grower{Sizes: []int{2_000, 450}}))
	row := k.await(r.ID, tree.Completed)
	require.Equal(t, 2_450, row.Completed)
	require.Equal(t, 2_449, strings.Count(string(row.Result), ","), "every result of both rounds, in two lists")
}

func TestAChildWithAKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.grow()
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	r := k.insert(tree.New(grower{Sizes: []int{3, 3, 5}, Keyed: true}))
	row := k.await(r.ID, tree.Completed)
	require.JSONEq(t, `[[100,101,102],[],[303,304]]`, string(row.Result))
	require.Equal(t, 5, row.Completed)
}

func TestAKeyIsRememberedForChildrenWithoutResultsAndForCancelledOnes(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	starts := make(chan int, 10)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		starts <- job.Args.N
		if job.Args.N == 1 {
			return nil, engine.Cancel(nil)
		}
		return nil, nil
	})
	k.onRoll(func(ctx context.Context, job *engine.Job[roll], kids *engine.Children) (any, error) {
		if job.Round == 1 {
			return nil, engine.FanOut(tree.New(task{7}, tree.Key("none")), tree.New(task{8}, tree.Key("cancelled")), tree.New(task{9}, tree.Key("new")))
		}
		for kid, err := range engine.Results[any](ctx, kids) {
			t.Error("a child without a result has one", kid, err)
		}
		return kids.Total(), nil
	})
	k.work(engine.WorkerConfig{PollInterval: time.Hour})
	r := k.insert(tree.New(roll{}).Add(tree.New(task{0}, tree.Key("none")), tree.New(task{1}, tree.Key("cancelled"))))
	require.Equal(t, "3", string(k.await(r.ID, tree.Completed).Result))
	close(starts)
	var ran []int
	for n := range starts {
		ran = append(ran, n)
	}
	require.ElementsMatch(t, []int{0, 1, 9}, ran)
}

func TestAFanOutOntoADeadLettersKeyFailsTheAttempt(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, engine.Fatal(errBoom) })
	k.onRoll(func(context.Context, *engine.Job[roll], *engine.Children) (any, error) {
		return nil, engine.FanOut(tree.New(task{}, tree.Key("same")), tree.New(task{}, tree.Key("other")))
	})
	k.work(engine.WorkerConfig{Backoff: fast()})
	r := k.insert(tree.New(roll{}, tree.OnDead(tree.Proceed), tree.MaxAttempts(2)).Add(tree.New(task{}, tree.Key("same"))))
	row := k.await(r.ID, tree.Dead)
	require.Equal(t, tree.ReasonAttemptsSpent, row.Reason)
	require.Contains(t, row.Error, fmt.Sprintf(`child key "same" is that of dead letter %d`, r.IDs[1]))
	require.Zero(t, one[int](k, `SELECT count(*) FROM coppice.jobs`), "nothing of the refused fan-outs is left")
}

func TestAFanOutThatCannotBeInsertedSendsTheJobToTheDeadLetters(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) {
		return nil, engine.FanOut(tree.New(task{}), tree.New(task{}, tree.Queue("")))
	})
	k.work(engine.WorkerConfig{})
	row := k.await(k.insert(tree.New(task{})).ID, tree.Dead)
	require.Equal(t, tree.ReasonBadFanOut, row.Reason)
	require.Contains(t, row.Error, "child[1]")
	require.Contains(t, row.Error, "queue")
	require.Equal(t, tree.OutcomeBadFanOut, k.failures(row.ID)[0].Outcome)
}

func TestAFanOutWhoseDedupKeyIsHeldIsTriedAgainWhole(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	holder := k.insert(tree.New(task{}, tree.Dedup("key"), tree.Queue("elsewhere")))
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil })
	engine.MustWork(k.reg, func(context.Context, *engine.Job[leaf]) (any, error) {
		return nil, engine.FanOut(tree.New(task{1}), tree.New(task{2}, tree.Dedup("key")))
	})
	engine.MustFinalize(k.reg, func(_ context.Context, _ *engine.Job[leaf], kids *engine.Children) (any, error) {
		return kids.Completed, nil
	})
	k.work(engine.WorkerConfig{Backoff: fast()})
	r := k.insert(tree.New(leaf{}, tree.MaxAttempts(10_000)))
	k.eventually(func() bool { return len(k.failures(r.ID)) > 2 }, "the fan-out was not refused")
	require.Contains(t, k.failures(r.ID)[0].Error, "held by live job")
	require.Zero(t, one[int](k, `SELECT count(*) FROM coppice.jobs WHERE parent_id IS NOT NULL`))
	k.exec(`DELETE FROM coppice.jobs WHERE id = $1`, int64(holder.ID))
	require.Equal(t, "2", string(k.await(r.ID, tree.Completed).Result))
}

func TestAFanOutOfALostClaimIsNotMade(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	started, carryOn := make(chan tree.ID), make(chan struct{})
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		started <- job.ID
		<-carryOn
		return nil, engine.FanOut(tree.New(task{5}))
	})
	w := k.work(engine.WorkerConfig{})
	k.insert(tree.New(task{}))
	id := receive(t, started)
	k.exec(`UPDATE coppice.jobs SET state = 'scheduled', run_at = now() + interval '1 day', worker_id = NULL, claim_seq = claim_seq + 1 WHERE id = $1`, int64(id))
	close(carryOn)
	require.NoError(t, w.Stop(t.Context()))
	require.Equal(t, 1, one[int](k, `SELECT count(*) FROM coppice.jobs`))
	require.Equal(t, 0, one[int](k, `SELECT pending FROM coppice.jobs`))
}
