package store_test

import (
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// The steps of the model test that add children to open jobs.

// anyJob draws a job, open ones more often than their number would have it.
func (m *machine) anyJob(t *rapid.T) *modelJob {
	all := m.some(func(*modelJob) bool { return true })
	if rapid.IntRange(0, 3).Draw(t, "open one") > 0 {
		all = m.some((*modelJob).open)
	}
	if len(all) == 0 {
		t.Skip("there is none")
	}
	return rapid.SampledFrom(all).Draw(t, "job")
}

// open says whether the job takes more children.
func (j *modelJob) open() bool { return j.State == tree.Waiting && !j.Sealed && j.Closing == "" }

func (m *machine) addSome(t *rapid.T) {
	if len(m.jobs) > 200 {
		t.Skip("enough")
	}
	j := m.anyJob(t)
	var specs []*modelSpec
	var jobs []*modelJob
	var parents []int
	var nodes []*tree.Node
	for range rapid.IntRange(1, 3).Draw(t, "children") {
		nodes = append(nodes, m.draw(t, rapid.IntRange(0, 2).Draw(t, "depth"), &specs, &jobs, &parents, -1))
	}
	plan, err := tree.NewFanOut(nodes...)
	require.NoError(t, err)
	got, err := m.AddChildren(m.t.Context(), j.ID, plan)
	if !j.open() {
		var refused *store.NotOpenError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, j.State, refused.State)
		return
	}
	require.NoError(t, err)
	require.Equal(t, len(nodes), got.Made)
	j.Pending += len(nodes)
	ids, err := m.ids(`SELECT id FROM coppice.jobs WHERE id > $1 ORDER BY id`, m.last())
	require.NoError(t, err)
	m.enter(ids, specs, jobs, parents, j)
}

func (m *machine) sealSome(t *rapid.T) {
	j := m.anyJob(t)
	_, err := m.Seal(m.t.Context(), j.ID)
	switch {
	case j.open():
		j.Sealed = true
		m.open(j)
		require.NoError(t, err)
	case j.State.Live() && j.Sealed:
		require.NoError(t, err)
	default:
		var refused *store.NotOpenError
		require.ErrorAs(t, err, &refused)
	}
}

// giveUpSome lets the time of an open job run out.
func (m *machine) giveUpSome(t *rapid.T) {
	j := m.anyJob(t)
	if !j.open() {
		t.Skip("it is not open")
	}
	m.exec(`UPDATE coppice.jobs SET seal_by = now() - interval '1 second' WHERE id = $1`, int64(j.ID))
	_, err := m.CloseOverdue(m.t.Context(), 10)
	require.NoError(t, err)
	j.Closing = string(tree.ReasonNeverSealed)
	if j.Pending == 0 {
		m.end(j, j.Closing)
	}
}
