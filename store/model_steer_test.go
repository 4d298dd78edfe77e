package store_test

import (
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// The steps of the model test that steer jobs from outside, and those that close trees.

// target draws a job that lived at some time and a scope, and what of it lives.
func (m *machine) target(t *rapid.T) (id tree.ID, scope store.Scope, live []*modelJob) {
	all := m.some(func(*modelJob) bool { return true })
	if len(all) == 0 {
		t.Skip("nothing was inserted")
	}
	id = rapid.SampledFrom(all).Draw(t, "job").ID
	scope = rapid.SampledFrom([]store.Scope{store.ScopeJob, store.ScopeBranch, store.ScopeTree}).Draw(t, "scope")
	live = m.reach(id, scope)
	if scope != store.ScopeTree && !m.jobs[id].State.Live() {
		live = nil
	}
	return id, scope, live
}

// steered compares what an act says with what the model says, and answers whether it was made.
func steered(t *rapid.T, got store.Steered, err error, live []*modelJob, changed int) bool {
	if len(live) == 0 {
		var gone *store.NotLiveError
		require.ErrorAs(t, err, &gone)
		return false
	}
	require.NoError(t, err)
	require.Equal(t, changed, got.Changed)
	return true
}

func count(jobs []*modelJob, is func(*modelJob) bool) (n int) {
	for _, j := range jobs {
		if is(j) {
			n++
		}
	}
	return n
}

func (m *machine) hold(t *rapid.T) {
	id, scope, live := m.target(t)
	if rapid.Bool().Draw(t, "release") {
		got, err := m.Release(m.t.Context(), id, scope, me())
		if steered(t, got, err, live, count(live, func(j *modelJob) bool { return j.Held || j.HoldBelow })) {
			for _, j := range live {
				j.Held, j.HoldBelow = false, false
			}
		}
		return
	}
	below := scope != store.ScopeJob
	got, err := m.Hold(m.t.Context(), id, scope, me())
	if steered(t, got, err, live, count(live, func(j *modelJob) bool { return !j.Held || below && !j.HoldBelow })) {
		for _, j := range live {
			j.Held, j.HoldBelow = true, j.HoldBelow || below
		}
	}
}

func (m *machine) runNow(t *rapid.T) {
	id, scope, live := m.target(t)
	want := func(j *modelJob) bool {
		return j.State == tree.Scheduled || j.State == tree.Waiting && m.specs[j.ID].later
	}
	got, err := m.RunNow(m.t.Context(), id, scope, me())
	if steered(t, got, err, live, count(live, want)) {
		for _, j := range live {
			if want(j) {
				m.specs[j.ID].later = false
				if j.State == tree.Scheduled {
					j.State = tree.Ready
				}
			}
		}
	}
}

func (m *machine) reprioritise(t *rapid.T) {
	id, scope, live := m.target(t)
	priority := rapid.IntRange(-1, 1).Draw(t, "priority")
	got, err := m.SetPriority(m.t.Context(), id, scope, priority, me())
	if steered(t, got, err, live, count(live, func(j *modelJob) bool { return j.Priority != priority })) {
		for _, j := range live {
			j.Priority = priority
		}
	}
}

func (m *machine) cancelSome(t *rapid.T) {
	id, scope, live := m.target(t)
	j := m.jobs[id]
	out, err := m.Cancel(m.t.Context(), id, scope, me())
	switch {
	case len(live) == 0:
		var gone *store.NotLiveError
		require.ErrorAs(t, err, &gone)
		return
	case scope == store.ScopeJob && j.Pending > 0:
		var has *store.HasChildrenError
		require.ErrorAs(t, err, &has)
		require.Equal(t, j.Pending, has.Children)
		return
	}
	require.NoError(t, err)
	root := m.specs[id].root
	require.Equal(t, root, out.RootID)
	before := count(m.some(func(*modelJob) bool { return true }), func(j *modelJob) bool { return j.State.Live() })
	for _, s := range live {
		if scope == store.ScopeTree && m.jobs[s.Parent] != nil && m.jobs[s.Parent].State.Live() || scope != store.ScopeTree && s.ID != id {
			continue
		}
		if s.Closing == "" {
			s.Closing = string(tree.Cancelled)
		}
	}
	m.sweep(root)
	after := count(m.some(func(*modelJob) bool { return true }), func(j *modelJob) bool { return j.State.Live() })
	require.Equal(t, before-after, out.Cancelled+out.DeadLettered)
}

// sweepSome closes as much of some tree as can be closed now.
func (m *machine) sweepSome(t *rapid.T) {
	roots, err := m.ClosingTrees(m.t.Context(), 0, 1_000)
	require.NoError(t, err)
	if len(roots) == 0 {
		t.Skip("nothing closes")
	}
	root := rapid.SampledFrom(roots).Draw(t, "tree")
	_, err = m.Sweep(m.t.Context(), root)
	require.NoError(t, err)
	m.sweep(root)
}

// fanOutSome ends an attempt in children.
func (m *machine) fanOutSome(t *rapid.T) {
	w := rapid.SampledFrom(m.workers).Draw(t, "worker")
	claims := m.current(w)
	if len(claims) == 0 || len(m.jobs) > 200 {
		t.Skip("nobody can")
	}
	c := rapid.SampledFrom(claims).Draw(t, "claim")
	var specs []*modelSpec
	var jobs []*modelJob
	var parents []int
	var nodes []*tree.Node
	for range rapid.IntRange(0, 3).Draw(t, "children") {
		nodes = append(nodes, m.draw(t, rapid.IntRange(0, 2).Draw(t, "depth"), &specs, &jobs, &parents, -1))
	}
	plan, err := tree.NewFanOut(nodes...)
	require.NoError(t, err)
	got, err := m.FanOut(m.t.Context(), w, c.Fence, plan)
	require.NoError(t, err)
	require.False(t, got.Lost)
	j := m.jobs[c.ID]
	if got.Stopped {
		require.NotEmpty(t, j.Closing)
		return
	}
	require.Empty(t, j.Closing)
	require.Equal(t, len(nodes), got.Made)
	j.Worker, j.Round, j.Attempt, j.Pending, j.State = 0, j.Round+1, 0, len(nodes), tree.Waiting
	m.open(j)
	ids, err := m.ids(`SELECT id FROM coppice.jobs WHERE id > $1 ORDER BY id`, m.last())
	require.NoError(t, err)
	require.Len(t, ids, len(specs))
	m.enter(ids, specs, jobs, parents, j)
}

// last is the highest id that the model knows.
func (m *machine) last() (id int64) {
	for j := range m.jobs {
		id = max(id, int64(j))
	}
	return id
}
