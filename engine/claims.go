package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// claims are the jobs that this worker holds: from the commit of a claim until its outcome is written, or
// until the claim is known to be lost.
type claims struct {
	mu   sync.Mutex // protects following fields
	jobs map[tree.ID]held
}

type held struct {
	seq    int64
	cancel context.CancelCauseFunc // nil: no handler runs
	ended  bool                    // its handler has; the outcome is on its way
	// What is to become of it if it has not started yet.
	stop bool // it is to end as stopped
	back bool // it is to go back
}

func newClaims() *claims { return &claims{jobs: map[tree.ID]held{}} }

// take notes new claims and returns those that are new to this worker. A crash of the server may forget a
// claim, which does not wait for the disk; the same worker then claims the job again under the same
// number, and goes on with the claim that it has. A job claimed again under a higher number was lost in
// between: the old handler is cancelled.
func (c *claims) take(jobs []store.Claim) []store.Claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := jobs[:0]
	for _, j := range jobs {
		old, ok := c.jobs[j.ID]
		if ok && old.seq == j.Seq {
			continue
		}
		if ok && old.cancel != nil {
			old.cancel(ErrClaimLost)
		}
		c.jobs[j.ID] = held{seq: j.Seq}
		fresh = append(fresh, j)
	}
	return fresh
}

// goAhead says what a claim's slot is to do.
type goAhead uint8

const (
	goNot  goAhead = iota // nothing: the claim is lost, or has run
	goRun                 // run the handler
	goStop                // settle it as stopped
	goBack                // give it back
)

// start notes that a handler runs, if one is to. The claim may have been lost before it could, or have run: the same
// claim may have been handed out twice, where it was given up for lost and then made anew under its old number.
func (c *claims) start(f store.Fence, cancel context.CancelCauseFunc) goAhead {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.jobs[f.ID]
	if !ok || h.seq != f.Seq || h.cancel != nil || h.ended {
		return goNot
	}
	do := goRun
	switch {
	case h.stop:
		do, h.ended = goStop, true
	case h.back:
		do, h.ended = goBack, true
	default:
		h.cancel = cancel
	}
	c.jobs[f.ID] = h
	return do
}

// heed does what is asked of jobs, all at once: the context of a handler that is to stop ends, and what has not started
// and is to stop, or is held, never does.
func (c *claims) heed(told []store.Told) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range told {
		h, ok := c.jobs[t.ID]
		if !ok || h.seq != t.Seq {
			continue
		}
		switch {
		case t.Closing == "":
			h.back = t.Held
		case h.cancel != nil:
			h.cancel(stopError(t))
		default:
			h.stop = true
		}
		c.jobs[t.ID] = h
	}
}

// stop notes that the handler has ended; the claim is held until its outcome is written.
func (c *claims) stop(f store.Fence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h, ok := c.jobs[f.ID]; ok && h.seq == f.Seq {
		h.cancel, h.ended = nil, true
		c.jobs[f.ID] = h
	}
}

// forget drops a claim of which no outcome will be written.
func (c *claims) forget(f store.Fence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h, ok := c.jobs[f.ID]; ok && h.seq == f.Seq {
		delete(c.jobs, f.ID)
	}
}

// drop forgets claims whose outcomes are written.
func (c *claims) drop(endings []store.Ending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range endings {
		if h, ok := c.jobs[endings[i].ID]; ok && h.seq == endings[i].Seq {
			delete(c.jobs, endings[i].ID)
		}
	}
}

// lose gives up one claim: the context of its handler ends, and nothing that it returns is recorded.
func (c *claims) lose(f store.Fence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h, ok := c.jobs[f.ID]; ok && h.seq == f.Seq && h.cancel != nil {
		h.cancel(ErrClaimLost)
	}
}

// loseAll gives every claim up: others have taken the jobs, or will. What has not started never will. A job whose
// handler runs stays held until the handler has ended, whether that heeds its context or not: should the
// lease turn out to be whole after all, it must not be given back, and run again, beside itself. What has
// ended stays until the database has taken its outcome, or refused it.
func (c *claims) loseAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, h := range c.jobs {
		switch {
		case h.cancel != nil:
			h.cancel(ErrClaimLost)
		case !h.ended:
			delete(c.jobs, id)
		}
	}
}

func (c *claims) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.jobs)
}

// holds reports whether the worker knows of this claim.
func (c *claims) holds(f store.Fence) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.jobs[f.ID]
	return ok && h.seq == f.Seq
}

// running lists the jobs whose handlers run, ascending.
func (c *claims) running() []tree.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []tree.ID
	for id, h := range c.jobs {
		if h.cancel != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
