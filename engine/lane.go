package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coppicehq/coppice/store"
)

const (
	// maxPrefetch bounds the jobs that a lane holds claimed and not started.
	maxPrefetch = 2_000
	// prefetchFor is how much work a lane holds ahead, where jobs are short.
	prefetchFor = 50 * time.Millisecond
	// shortJob is the mean run time up to which a lane fetches ahead at all: longer jobs are left for
	// whoever has a slot free.
	shortJob = 10 * time.Millisecond
	// maxClaim bounds one claim.
	maxClaim = 1_000
	// maxBacklog is how many jobs a lane may hold, outcomes that wait to be written included.
	maxBacklog = 4_000
)

// lane serves one queue: one goroutine claims, slots run.
type lane struct {
	worker *Worker
	queue  string
	slots  int
	work   chan *store.Claim // claimer sends; slots receive; the claimer closes
	signal chan struct{}     // cap 1: something changed that the claimer waits for
	keeps  atomic.Bool       // history is kept for jobs that do not say
	paused atomic.Bool       // what has not started goes back; claims find the queue paused by themselves
	// careful: the last claim found that not all jobs of the queue may run at once: none is claimed ahead.
	careful atomic.Bool

	claiming chan struct{} // cap 1: holds a value from the start of a claim until the worker knows what it brought
	started  atomic.Int64  // jobs that slots took

	held    atomic.Int64 // claimed, not yet ended
	meanRun atomic.Int64 // ns, moving average; 0: nothing ran yet
	poked   atomic.Bool  // a wake-up came: ask the queue even though it was dry
	dueAt   atomic.Int64 // monotonic ns since the worker's start when something comes due; 0: nothing known
}

func newLane(w *Worker, queue string, slots int) *lane {
	l := &lane{
		worker: w, queue: queue, slots: slots,
		work: make(chan *store.Claim, slots+maxPrefetch), signal: make(chan struct{}, 1),
		claiming: make(chan struct{}, 1),
	}
	l.keeps.Store(true)
	return l
}

func (l *lane) nudge() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// wake makes the claimer ask the queue.
func (l *lane) wake() {
	l.poked.Store(true)
	l.nudge()
}

// dueIn tells the claimer that something comes due after d.
func (l *lane) dueIn(d time.Duration) {
	at := int64(l.worker.sinceStart() + d)
	for {
		old := l.dueAt.Load()
		if old != 0 && old <= at {
			return
		}
		if l.dueAt.CompareAndSwap(old, at) {
			l.nudge()
			return
		}
	}
}

// slot runs jobs until the lane is closed.
func (l *lane) slot() {
	ended := false
	defer func() {
		if !ended {
			// A handler called runtime.Goexit: its outcome is recorded, this goroutine is lost.
			go l.slot()
			return
		}
		l.worker.slots.Done()
	}()
	for claim := range l.work {
		l.runOne(claim)
	}
	ended = true
}

func (l *lane) runOne(claim *store.Claim) {
	l.started.Add(1)
	started := time.Now()
	defer func() {
		l.observe(time.Since(started))
		// The claimer sleeps while the lane is full; it is told when about half of what it may hold has
		// been eaten, or a slot is free.
		if left := l.held.Add(-1); left <= int64(l.lowWater(l.ahead())) {
			l.nudge()
		}
	}()
	if l.worker.releasing.Load() || l.paused.Load() {
		l.release(claim)
		return
	}
	l.worker.run(claim)
}

// release gives a job back that has not started.
func (l *lane) release(claim *store.Claim) {
	l.worker.settler.add(l.worker.ending(claim, store.EndReleased))
}

// releaseAhead gives back everything that no slot has taken yet: the slots of a paused queue may be busy for long.
func (l *lane) releaseAhead() {
	for {
		select {
		case claim := <-l.work:
			l.release(claim)
			l.held.Add(-1)
		default:
			return
		}
	}
}

// observe keeps a moving average over about 16 jobs.
func (l *lane) observe(d time.Duration) {
	old := l.meanRun.Load()
	if old == 0 {
		l.meanRun.Store(max(int64(d), 1))
		return
	}
	l.meanRun.Store(max(old+(int64(d)-old)/16, 1)) // a lost update among slots does not matter
}

// ahead is how many jobs the lane may hold beyond its slots.
func (l *lane) ahead() int {
	mean := time.Duration(l.meanRun.Load())
	if mean == 0 || mean > shortJob || l.careful.Load() {
		return 0
	}
	return int(min(int64(prefetchFor/mean)*int64(l.slots), maxPrefetch))
}

// lowWater is how many jobs the lane may hold and still claim: never so few that slots are free.
func (l *lane) lowWater(ahead int) int {
	if ahead > 0 {
		return max((l.slots+ahead)/2, l.slots-1)
	}
	return l.slots - 1
}

// loop claims until ctx ends, and then closes the lane.
func (l *lane) loop(ctx context.Context) {
	defer close(l.work)
	c := claimer{lane: l, promote: true, most: maxClaim}
	for ctx.Err() == nil {
		c.shed()
		// Read once: what the slots do meanwhile must not make the answers disagree.
		held, ahead := int(l.held.Load()), l.ahead()
		want := l.slots + ahead - held
		resting := l.worker.sinceStart() < c.restTill
		paused := l.paused.Load()
		if paused {
			l.releaseAhead()
		}
		full := paused || held > l.lowWater(ahead) || l.worker.held.size() > len(l.worker.lanes)*(l.slots+maxBacklog)
		if full || resting || (c.dry && !l.poked.Load() && !c.isDue()) {
			c.wait(ctx, full)
			continue
		}
		c.claim(ctx, min(want, c.most))
	}
}
