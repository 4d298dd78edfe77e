package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/reaper"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// An end is a way for a child to end, and what is then to be seen of it.
type end struct {
	name   string
	child  *tree.Node
	state  tree.State
	reason tree.Reason
}

// The handlers of these tests end as the number says.
const (
	endsWell = iota
	endsFatally
	endsFailing
	endsPanicking
	endsLate
	endsCancelling
)

func endAs(ctx context.Context, n int) (any, error) {
	switch n {
	case endsFatally:
		return nil, engine.Fatal(errors.New("no such file"))
	case endsFailing:
		return nil, errors.New("not yet")
	case endsPanicking:
		panic("out of range")
	case endsLate:
		<-ctx.Done()
		return nil, ctx.Err()
	case endsCancelling:
		return nil, engine.Cancel(errors.New("not needed"))
	}
	return n, nil
}

func ends() []end {
	once := tree.MaxAttempts(1)
	return []end{
		{"completed", tree.New(task{endsWell}), tree.Completed, ""},
		{"fatal", tree.New(task{endsFatally}), tree.Dead, tree.ReasonFatal},
		{"attempts spent", tree.New(task{endsFailing}, tree.MaxAttempts(2)), tree.Dead, tree.ReasonAttemptsSpent},
		{"timeout", tree.New(task{endsLate}, once, tree.Timeout(time.Millisecond)), tree.Dead, tree.ReasonAttemptsSpent},
		{"panic", tree.New(task{endsPanicking}, once), tree.Dead, tree.ReasonAttemptsSpent},
		{"age spent", tree.New(task{endsFailing}, tree.MaxAge(time.Millisecond), tree.WithBackoff(tree.Backoff{Base: time.Hour})), tree.Dead, tree.ReasonAgeSpent},
		{"cancelled by its handler", tree.New(task{endsCancelling}), tree.Cancelled, ""},
		{"cancelled by a person", tree.New(task{}, tree.Queue("nobody")), tree.Cancelled, ""},
		{"past its deadline", tree.New(task{}, tree.Queue("nobody"), tree.Deadline(time.Millisecond)), tree.Cancelled, ""},
		{"lost", tree.New(task{}, tree.Queue("gone"), tree.OnLost(tree.LostDeadLetter)), tree.Dead, tree.ReasonLost},
		{"never sealed", tree.New(roll{}, tree.Key("open")).Add(), tree.Dead, tree.ReasonNeverSealed},
	}
}

// TestEveryEndOfAChildUnderEveryPolicyInEveryStateOfItsParent is the table of docs/semantics.md, Trees.
func TestEveryEndOfAChildUnderEveryPolicyInEveryStateOfItsParent(t *testing.T) {
	t.Parallel()
	policies := map[string]struct {
		options []tree.Option
		stops   tree.State // what a parent with one dead child of two becomes; "": it goes on
	}{
		"wait":           {nil, tree.Waiting},
		"proceed":        {[]tree.Option{tree.OnDead(tree.Proceed)}, ""},
		"fail":           {[]tree.Option{tree.OnDead(tree.Fail)}, tree.Dead},
		"tolerate one":   {[]tree.Option{tree.OnDead(tree.Fail), tree.Tolerate(1)}, ""},
		"tolerate half":  {[]tree.Option{tree.TolerateRatio(0.5)}, ""},
		"tolerate less":  {[]tree.Option{tree.TolerateRatio(0.4)}, tree.Waiting},
		"tolerate fails": {[]tree.Option{tree.OnDead(tree.Fail), tree.TolerateRatio(0.3)}, tree.Dead},
	}
	parents := map[string]struct {
		options []tree.Option
		sql     string
		goesOn  tree.State // what a parent with nothing to wait for becomes
	}{
		"waiting":   {nil, `SELECT $1::bigint`, tree.Completed},
		"scheduled": {[]tree.Option{tree.Delay(time.Hour)}, `SELECT $1::bigint`, tree.Scheduled},
		"held":      {nil, `UPDATE coppice.jobs SET held = true WHERE id = $1 RETURNING id`, tree.Ready},
		"unsealed":  {nil, `UPDATE coppice.jobs SET sealed = false, seal_by = now() + interval '1 hour' WHERE id = $1 RETURNING id`, tree.Waiting},
	}
	for policyName, policy := range policies {
		for parentName, parent := range parents {
			t.Run(fmt.Sprintf("%s, %s", policyName, parentName), func(t *testing.T) {
				t.Parallel()
				k := newKit(t)
				k.onTask(func(ctx context.Context, job *engine.Job[task]) (any, error) { return endAs(ctx, job.Args.N) })
				k.onRoll(func(context.Context, *engine.Job[roll], *engine.Children) (any, error) { return nil, nil })
				trees := map[string]engine.Receipt{}
				for _, e := range ends() {
					// The sibling has ended when the child does, so that what becomes of it does not depend on the policy.
					root := tree.New(roll{}, append(append([]tree.Option{}, policy.options...), parent.options...)...)
					r := k.insert(root.Add(tree.New(task{endsWell}, tree.Priority(-1)), e.child))
					trees[e.name] = r
					one[int64](k, parent.sql, int64(r.ID))
				}
				k.endTheRest(trees)
				for _, e := range ends() {
					r := trees[e.name]
					child := k.await(r.IDs[2], e.state)
					require.Equal(t, e.reason, child.Reason, e.name)
					want := parent.goesOn
					if e.state == tree.Dead && policy.stops != "" {
						want = policy.stops
					}
					var row *store.JobRow
					k.eventually(func() bool {
						var err error
						row, err = k.Store().Job(t.Context(), r.ID)
						return err == nil && row.State == want && row.Pending == 0
					}, "%s: the parent is not %s", e.name, want)
					stalled := want == tree.Waiting && e.state == tree.Dead && policy.stops == tree.Waiting
					require.Equal(t, stalled, row.StalledAt != nil, "%s: stalled", e.name)
					require.Equal(t, parentName == "held", row.Held, "%s: a hold stays", e.name)
					if want == tree.Dead {
						require.Equal(t, tree.ReasonFailFast, row.Reason, e.name)
					}
					require.Equal(t, 1, k.await(r.IDs[1], tree.Completed).Attempt, "%s: the sibling", e.name)
					require.Equal(t, 2, row.Completed+row.Dead+row.Cancelled, e.name)
				}
			})
		}
	}
}

// endTheRest ends the children that no handler ends: it starts a worker for the others, has the siblings end first, cancels,
// lets a worker die, and lets reapers look at what is past its time.
func (k *kit) endTheRest(trees map[string]engine.Receipt) {
	k.t.Helper()
	ctx := k.t.Context()
	st := k.Store()
	k.exec(`UPDATE coppice.jobs SET held = true WHERE parent_id IS NOT NULL AND priority = 0`)
	open := trees["never sealed"].IDs[2]
	k.exec(`UPDATE coppice.jobs SET sealed = false, state = 'waiting', seal_by = now() - interval '1 second' WHERE id = $1`, int64(open))
	k.work(engine.WorkerConfig{Backoff: fast(), PollInterval: 20 * time.Millisecond})
	for _, r := range trees {
		k.await(r.IDs[1], tree.Completed)
	}
	k.exec(`UPDATE coppice.jobs SET held = false WHERE parent_id IS NOT NULL AND priority = 0`)
	_, err := k.Cancel(ctx, trees["cancelled by a person"].IDs[2], store.ScopeJob, me())
	require.NoError(k.t, err)
	dying, err := st.Register(ctx, store.WorkerInfo{Name: "dying", Host: "h", PID: 1, Queues: []string{"gone"}, Kinds: []string{"task"}, Lease: time.Hour})
	require.NoError(k.t, err)
	got, err := st.Claim(ctx, store.ClaimRequest{WorkerID: dying, Queue: "gone", Limit: 1, WorkKinds: []string{"task"}})
	require.NoError(k.t, err)
	require.Len(k.t, got.Jobs, 1)
	k.exec(`UPDATE coppice.workers SET expires_at = now() - interval '1 second' WHERE id = $1`, int64(dying))
	r, err := reaper.New(st, reaper.Config{})
	require.NoError(k.t, err)
	for range 2 { // what the first closes makes work for the second
		require.NoError(k.t, r.Pass(ctx))
	}
}
