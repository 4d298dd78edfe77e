package store_test

import (
	"maps"
	"slices"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// modelJob is a job as the model has it: the columns that the protocols decide about.
type modelJob struct {
	ID        tree.ID
	Parent    tree.ID
	State     tree.State
	Held      bool
	HoldBelow bool
	Closing   string
	Priority  int
	Sealed    bool
	Seq       int64
	Worker    tree.WorkerID // of a live job
	Attempt   int
	Snoozes   int
	Lost      int
	Round     int
	Pending   int
	Completed int
	Dead      int
	Cancelled int
	Results   int // kept for it
}

// modelSpec is what does not change.
type modelSpec struct {
	queue    string
	policy   tree.DeadPolicy
	tolerate int
	max      int
	onLost   tree.LostPolicy
	later    bool // its own due time has not come: as a leaf it is scheduled, as a finalizer it will be
	root     tree.ID
}

// model is a store in memory, without SQL and without concurrency.
type model struct {
	jobs   map[tree.ID]*modelJob
	specs  map[tree.ID]*modelSpec
	old    []store.Claim // every claim that was ever made
	paused map[string]bool
}

func newModel() *model {
	return &model{jobs: map[tree.ID]*modelJob{}, specs: map[tree.ID]*modelSpec{}, paused: map[string]bool{}}
}

// some lists jobs in id order, and asks each of want in that order.
func (m *model) some(want ...func(*modelJob) bool) []*modelJob {
	var out []*modelJob
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		if !slices.ContainsFunc(want, func(f func(*modelJob) bool) bool { return !f(m.jobs[id]) }) {
			out = append(out, m.jobs[id])
		}
	}
	return out
}

func (m *model) inState(s tree.State) []*modelJob {
	return m.some(func(j *modelJob) bool { return j.State == s })
}

// claimable are the jobs that a claim of the queue may take.
func (m *model) claimable(queue string) []*modelJob {
	return m.some(func(j *modelJob) bool {
		return j.State == tree.Ready && !j.Held && m.specs[j.ID].queue == queue && !m.paused[queue]
	})
}

// settle ends one attempt and answers false when the claim is lost.
func (m *model) settle(w tree.WorkerID, e *store.Ending) bool {
	j := m.jobs[e.ID]
	if j == nil || j.State != tree.Running || j.Worker != w || j.Seq != e.Seq {
		return false
	}
	if j.Closing != "" && e.End != store.EndCompleted && e.End != store.EndCancelled {
		m.end(j, j.Closing)
		return true
	}
	if e.End == store.EndStopped {
		return false // nobody asked it to stop
	}
	j.Worker = 0
	switch e.End {
	case store.EndRetry, store.EndSnoozed, store.EndReleased:
		if e.End != store.EndRetry {
			j.Attempt--
		}
		if e.End == store.EndSnoozed {
			j.Snoozes++
		}
		j.State = tree.Ready
		if e.Delay > 0 {
			j.State = tree.Scheduled
		}
		return true
	case store.EndCompleted:
		j.State = tree.Completed
	case store.EndCancelled:
		j.State = tree.Cancelled
	case store.EndDead:
		j.State = tree.Dead
	}
	if p := m.jobs[j.Parent]; p != nil && e.Result != nil && j.State == tree.Completed {
		p.Results++
	}
	m.left(j)
	return true
}

// end ends a job as a closing says.
func (m *model) end(j *modelJob, closing string) {
	j.Worker, j.State = 0, tree.Dead
	if closing == string(tree.Cancelled) {
		j.State = tree.Cancelled
	}
	m.left(j)
}

// left lets a job's parent move on.
func (m *model) left(j *modelJob) {
	if j.State != tree.Dead {
		j.Results = 0
	}
	p := m.jobs[j.Parent]
	if p == nil {
		return
	}
	p.Pending--
	switch j.State {
	case tree.Completed:
		p.Completed++
	case tree.Cancelled:
		p.Cancelled++
	case tree.Dead:
		p.Dead++
		spec := m.specs[p.ID]
		if spec.policy == tree.Fail && p.Dead > spec.tolerate && p.State == tree.Waiting && p.Closing == "" {
			p.Closing = string(tree.ReasonFailFast)
		}
	}
	m.open(p)
}

// sweep ends what can end below and at the closing finalizers of a tree, and marks what cannot.
func (m *model) sweep(root tree.ID) {
	for again := true; again; {
		again = false
		for _, j := range m.some(func(j *modelJob) bool { return j.State.Live() && m.specs[j.ID].root == root }) {
			closing := j.Closing
			if p := m.jobs[j.Parent]; closing == "" && p != nil && p.State.Live() {
				closing = p.Closing
			}
			switch {
			case closing == "" || !j.State.Live():
			case j.State != tree.Running && j.Pending == 0:
				m.end(j, closing)
				again = true
			case j.Closing == "":
				j.Closing, again = closing, true
			}
		}
	}
}

// reach lists the live jobs of a scope, in id order.
func (m *model) reach(id tree.ID, scope store.Scope) []*modelJob {
	in := map[tree.ID]bool{id: true}
	return m.some(func(*modelJob) bool { return true }, func(j *modelJob) bool {
		if scope == store.ScopeBranch && in[j.Parent] {
			in[j.ID] = true
		}
		return j.State.Live() && (in[j.ID] || scope == store.ScopeTree && m.specs[j.ID].root == m.specs[id].root)
	})
}

// open makes a finalizer ready that has nothing left to wait for.
func (m *model) open(p *modelJob) {
	spec := m.specs[p.ID]
	if p.State != tree.Waiting || !p.Sealed || p.Pending > 0 || p.Closing != "" || (p.Dead > spec.tolerate && spec.policy != tree.Proceed) {
		return
	}
	p.State = tree.Ready
	if spec.later {
		p.State = tree.Scheduled
	}
}

// lose takes back what a worker holds, as a rescue does.
func (m *model) lose(w tree.WorkerID) {
	for _, j := range m.inState(tree.Running) {
		if j.Worker != w {
			continue
		}
		j.Lost++
		e := store.Ending{Fence: store.Fence{ID: j.ID, Seq: j.Seq}, End: store.EndRetry}
		if spec := m.specs[j.ID]; j.Attempt >= spec.max || spec.onLost == tree.LostDeadLetter {
			e.End = store.EndDead
		}
		m.settle(w, &e)
	}
}
