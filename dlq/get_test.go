package dlq_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/dlq"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// odd encodes as JSON that a parser and writer would not give back as it is.
type odd struct{}

const oddBytes = `{"b":1.10,"a":"ä\u00e4","b":[1e2,{}]}`

func (odd) Kind() string { return "odd" }

func (odd) MarshalJSON() ([]byte, error) { return []byte(oddBytes), nil }

// fail claims the one job that is due and settles it as told, wherever its fence stands.
func (f *fixture) fail(end store.Ending) tree.ID {
	f.t.Helper()
	w, err := f.store.Register(f.t.Context(), store.WorkerInfo{
		Name: "w", Queues: []string{"default"}, Kinds: []string{"odd"}, Lease: time.Hour,
	})
	require.NoError(f.t, err)
	claimed, err := f.store.Claim(f.t.Context(), store.ClaimRequest{
		WorkerID: w, Queue: "default", Limit: 1, WorkKinds: []string{"odd"},
	})
	require.NoError(f.t, err)
	require.Len(f.t, claimed.Jobs, 1)
	end.Fence = claimed.Jobs[0].Fence
	settled, err := f.store.Settle(f.t.Context(), w, []store.Ending{end})
	require.NoError(f.t, err)
	require.Empty(f.t, settled.Lost)
	return end.ID
}

func TestADeadLetterIsReadWholeWithItsAttempts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	plan, err := tree.NewPlan(tree.New(odd{}, tree.Tags("a")))
	require.NoError(t, err)
	_, err = f.store.Insert(t.Context(), plan)
	require.NoError(t, err)
	f.fail(store.Ending{End: store.EndRetry, Outcome: tree.OutcomeTimeout, Error: "too slow"})
	id := f.fail(store.Ending{
		End: store.EndDead, Reason: tree.ReasonFatal, Outcome: tree.OutcomePanic, Error: "no hope", Stack: "main.go:1",
	})
	f.exec(`UPDATE coppice.dead_jobs SET created_at = created_at - interval '5 hours', failed_at = failed_at - interval '2 hours'`)

	got, err := f.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, oddBytes, string(got.Args)) //nolint:testifylint // the bytes that were inserted, not merely the same JSON
	require.Equal(t, tree.ReasonFatal, got.Reason)
	require.Equal(t, "no hope", got.Error)
	require.Equal(t, []string{"a"}, got.Tags)
	require.Equal(t, 2, got.Attempt)
	require.InDelta(t, 2*time.Hour, got.DeadFor, float64(time.Minute))
	require.InDelta(t, 5*time.Hour, got.Age, float64(time.Minute))
	require.Len(t, got.Errors, 2)
	require.Equal(t, "no hope", got.Errors[0].Error)
	require.Equal(t, "main.go:1", got.Errors[0].Stack)
	require.Equal(t, tree.OutcomeTimeout, got.Errors[1].Outcome)

	entries, _, err := f.List(t.Context(), dlq.Filter{Reason: tree.ReasonFatal, Text: "NO HOPE"}, dlq.Page{})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, got.WorkerID, entries[0].WorkerID)
	require.NotZero(t, got.WorkerID, "it says who ran it last")
	require.InDelta(t, got.DeadFor, entries[0].DeadFor, float64(time.Minute))
}

func TestWhatIsNoDeadLetterIsNotFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`INSERT INTO coppice.jobs (id, root_id, state, kind, queue, args) VALUES (1, 1, 'ready', 'k', 'q', '1');
		INSERT INTO coppice.history (id, root_id, state, kind, queue, args) VALUES (2, 2, 'completed', 'k', 'q', '1')`)
	for id, want := range map[tree.ID]string{
		1: "job 1: not in the dead-letter queue: it is ready",
		2: "job 2: not in the dead-letter queue: it is completed",
		3: "job 3: not in the dead-letter queue, and neither live nor in the history",
		0: "job 0: not in the dead-letter queue, and neither live nor in the history",
	} {
		_, err := f.Get(t.Context(), id)
		require.ErrorIs(t, err, dlq.ErrNotFound)
		require.EqualError(t, err, want)
	}
}
