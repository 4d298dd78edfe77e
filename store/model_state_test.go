package store_test

import (
	"cmp"
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
	max      int
	onLost   tree.LostPolicy
	later    bool // its own due time has not come: as a leaf it is scheduled, as a finalizer it will be
	priority int
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

// some lists jobs in id order.
func (m *model) some(want func(*modelJob) bool) []*modelJob {
	var out []*modelJob
	for _, j := range m.jobs {
		if want(j) {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b *modelJob) int { return cmp.Compare(a.ID, b.ID) })
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
	if j.State != tree.Dead {
		j.Results = 0
	}
	if p := m.jobs[j.Parent]; p != nil {
		p.Pending--
		switch j.State {
		case tree.Completed:
			p.Completed++
			if e.Result != nil {
				p.Results++
			}
		case tree.Cancelled:
			p.Cancelled++
		case tree.Dead:
			p.Dead++
		}
		m.open(p)
	}
	return true
}

// open makes a finalizer ready that has nothing left to wait for.
func (m *model) open(p *modelJob) {
	spec := m.specs[p.ID]
	if p.State != tree.Waiting || p.Pending > 0 || (p.Dead > 0 && spec.policy == tree.Wait) {
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
