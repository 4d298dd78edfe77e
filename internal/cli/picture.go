package cli

import (
	"cmp"
	"context"
	"slices"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// maxShown bounds the jobs of one picture, whatever depth and width were asked for: each parent that is
// opened costs two queries, and nobody reads more.
const maxShown = 500

// maxCounted bounds the live children of one parent that are counted by state; the rest is counted as uncounted.
const maxCounted = 50_000

const uncounted tree.State = "live"

// picture is what is shown of a tree.
type picture struct {
	root   tree.ID
	counts store.TreeCounts // of the whole tree
	top    *branch
}

// branch is one job in a picture.
type branch struct {
	store.NotableChild
	children []*branch
	hidden   map[tree.State]int64 // children that are there and are not among children
	gone     int64                // ended children of which nothing is kept
	closed   bool                 // it was not looked for children, for want of depth or room
}

// takePicture reads the tree below a job level by level, so that the room is spent on what is close to the job,
// and within a level on what is worth a look.
func takePicture(ctx context.Context, st *store.Store, id tree.ID, v view) (*picture, error) {
	job, err := st.Job(ctx, id)
	if err != nil {
		return nil, notFound(err, "job", id)
	}
	p := &picture{root: job.RootID, top: branchOf(job)}
	if p.counts, err = st.TreeCounts(ctx, job.RootID); err != nil {
		return nil, notFound(err, "tree", job.RootID)
	}
	room := maxShown
	level := []*branch{p.top}
	for depth := 0; len(level) > 0; depth++ {
		var next []*branch
		for _, b := range level {
			if !b.isParent() {
				continue
			}
			if depth >= v.depth || room <= 0 {
				b.closed = true
				continue
			}
			if err := b.open(ctx, st, p.root, min(v.children, room)); err != nil {
				return nil, err
			}
			room -= len(b.children)
			next = append(next, b.children...)
		}
		slices.SortStableFunc(next, func(a, b *branch) int { return cmp.Compare(a.rank(), b.rank()) })
		level = next
	}
	return p, nil
}

func branchOf(j *store.JobRow) *branch {
	return &branch{NotableChild: store.NotableChild{
		ChildRow: store.ChildRow{
			Place: j.Place, ID: j.ID, Kind: j.Kind, State: j.State, Queue: j.Queue, ChildKey: j.ChildKey, Held: j.Held,
			Round: j.Round, Attempt: j.Attempt, MaxAttempts: j.MaxAttempts, Reason: j.Reason, Counters: j.Counters,
			LastError: j.Error,
		},
		Stalled: j.StalledFor > 0,
	}}
}

func (b *branch) isParent() bool { return b.Round > 0 }

// rank orders branches by how much they are worth a look, as store.NotableChildren does.
func (b *branch) rank() int {
	switch {
	case b.State == tree.Dead:
		return 0
	case b.Stalled:
		return 1
	case b.State.Live():
		return 2
	}
	return 3
}

// open reads the children worth a look, and counts the others.
func (b *branch) open(ctx context.Context, st *store.Store, root tree.ID, limit int) error {
	rows, err := st.NotableChildren(ctx, root, b.ID, limit)
	if err != nil {
		return err
	}
	if b.hidden, err = st.LiveStates(ctx, root, b.ID, maxCounted); err != nil {
		return err
	}
	if b.Pending > maxCounted {
		b.hidden[uncounted] = int64(b.Pending) - maxCounted
	}
	b.hidden[tree.Completed] = int64(b.Completed)
	b.hidden[tree.Cancelled] = int64(b.Cancelled)
	b.hidden[tree.Dead] = int64(b.Dead)
	for _, r := range rows {
		b.children = append(b.children, &branch{NotableChild: r})
		b.hidden[r.State]--
	}
	for state, n := range b.hidden {
		if n <= 0 { // below zero when a child has moved between the queries
			delete(b.hidden, state)
		}
	}
	if len(rows) < limit { // all that is there was read: what else the counters know has left the history
		for state, n := range b.hidden {
			if !state.Live() && state != tree.Dead {
				b.gone += n
			}
		}
		clear(b.hidden)
	}
	return nil
}
