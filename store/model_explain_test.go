package store_test

import (
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// explainSome holds the explanation of a job, whatever became of it, against the model.
func (m *machine) explainSome(t *rapid.T) {
	all := m.some(func(*modelJob) bool { return true })
	if len(all) == 0 {
		t.Skip("nothing was inserted")
	}
	j := rapid.SampledFrom(all).Draw(t, "job")
	e, err := m.Explain(m.t.Context(), j.ID)
	require.NoError(t, err)
	require.Equal(t, j.State, e.State)
	require.NotEmpty(t, e.Reasons)
	given := map[store.Because]store.Obstacle{}
	for _, o := range e.Reasons {
		given[o.Because] = o
	}
	switch j.State {
	case tree.Running:
		require.True(t, has(given, store.BecauseRunning) || has(given, store.BecauseLost), "%v", e.Reasons)
	case tree.Dead:
		require.Contains(t, given, store.BecauseDead)
	case tree.Completed, tree.Cancelled:
		require.Contains(t, given, store.BecauseEnded)
	case tree.Waiting:
		require.NotContains(t, given, store.BecauseTurn, "it waits for something")
		require.Equal(t, j.Pending, given[store.BecauseChildren].Count)
		require.Len(t, given[store.BecauseChildren].Jobs, min(j.Pending, 10))
	case tree.Scheduled:
		require.True(t, has(given, store.BecauseDue) || has(given, store.BecauseComeDue), "%v", e.Reasons)
	}
	if j.State.Live() {
		require.Equal(t, j.Closing != "", has(given, store.BecauseClosing))
		require.Equal(t, j.Held && j.State != tree.Running, has(given, store.BecauseHeld))
	}
	if j.Held && j.State.Live() && j.State != tree.Running {
		require.Equal(t, me().Actor, given[store.BecauseHeld].Actor, "a hold of the job or from above")
	}
}

func has(given map[store.Because]store.Obstacle, b store.Because) bool {
	_, ok := given[b]
	return ok
}
