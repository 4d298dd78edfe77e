package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/testcheck"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

type step struct {
	Name string
	kind string
}

func (s step) Kind() string { return s.kind }

// TestCheckFindsNothingWhileTreesAreWorkedOff runs trees whose leaves complete, retry, die and are cancelled by turns,
// in batches of every size, and checks after each claim and each settle.
func TestCheckFindsNothingWhileTreesAreWorkedOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	worker, err := f.Register(ctx, store.WorkerInfo{Name: "w", Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"work", "roll"}})
	require.NoError(t, err)
	var forest []*tree.Node
	for i := range 6 {
		root := tree.New(step{fmt.Sprint(i), "roll"}, tree.OnDead([]tree.DeadPolicy{tree.Wait, tree.Proceed}[i%2]))
		for j := range 3 {
			middle := tree.New(step{"middle", "roll"}, tree.OnDead(tree.Proceed))
			for k := range i {
				middle.Add(tree.New(step{fmt.Sprint(j, k), "work"}))
			}
			root.Add(middle, tree.New(step{"leaf", "work"}))
		}
		forest = append(forest, root)
	}
	plan, err := tree.NewPlan(forest...)
	require.NoError(t, err)
	_, err = f.Insert(ctx, plan)
	require.NoError(t, err)
	testcheck.AssertInvariants(t, f.Store)

	settled := 0
	for size := 1; ; size++ {
		got, err := f.Claim(ctx, store.ClaimRequest{
			WorkerID: worker, Queue: "default", Limit: size,
			WorkKinds: []string{"work", "roll"}, FinalizeKinds: []string{"roll"}, Promote: true,
		})
		require.NoError(t, err)
		if len(got.Jobs) == 0 {
			break
		}
		testcheck.AssertInvariants(t, f.Store)
		var ends []store.Ending
		for _, c := range got.Jobs {
			e := store.Ending{Fence: c.Fence, ParentID: c.ParentID, Round: c.Round, Keep: true, Result: []byte(`1`)}
			switch settled++; {
			case c.Round == 0 && settled%5 == 1:
				e.End, e.Reason, e.Outcome, e.Error, e.Result = store.EndDead, tree.ReasonFatal, tree.OutcomeError, "no", nil
			case settled%5 == 2:
				e.End, e.Outcome, e.Error, e.Result = store.EndRetry, tree.OutcomeError, "not yet", nil
			case c.Round == 0 && settled%5 == 3:
				e.End, e.Error, e.Result = store.EndCancelled, "no need", nil
			}
			ends = append(ends, e)
		}
		done, err := f.Settle(ctx, worker, ends)
		require.NoError(t, err)
		require.Empty(t, done.Lost)
		testcheck.AssertInvariants(t, f.Store)
	}

	rows, _, err := f.Trees(ctx, store.TreeFilter{})
	require.NoError(t, err)
	for _, r := range rows { // what is left waits for its dead
		require.Equal(t, tree.Waiting, r.State)
		require.Positive(t, r.Dead)
		require.NotNil(t, r.StalledAt)
	}
	require.NotEmpty(t, rows)
	require.Less(t, len(rows), len(forest))
}
