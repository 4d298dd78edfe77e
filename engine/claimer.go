package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/coppicehq/coppice/store"
)

const (
	// slowClaim is from when a claim from the front of the queue counts as slow: it walks entries of the
	// index that are dead but not gone, as it does while some old transaction holds its snapshot open.
	slowClaim = 4 * time.Millisecond
	// frontShare bounds the share of its time that a lane spends on slow claims from the front: one part
	// in so many.
	frontShare = 10
	// maxSkip bounds how long a lane may do without a look at the front.
	maxSkip = time.Second
	// claimTimeout bounds one claim. One that is cut off may have been made; giveBackUnknown finds its jobs.
	claimTimeout = 30 * time.Second
	// claimRetry is how long a lane waits after a claim failed, twice as long with every further failure.
	claimRetry = 100 * time.Millisecond
	// maxClaimRetry bounds that.
	maxClaimRetry = 5 * time.Second
	// stuckAfter is how long what was claimed ahead may wait with no slot beginning anything.
	stuckAfter = time.Second
)

// claimer is the state of a lane's claiming goroutine.
type claimer struct {
	*lane
	dry      bool            // the last claim brought less than asked for
	promote  bool            // look for due jobs with the next claim
	after    *store.Position // start here instead of at the front
	skipTill time.Duration   // since the worker's start: until then after holds
	polled   time.Duration   // since the worker's start: the last claim
	promoted time.Duration   // since the worker's start: the last look for due jobs
	failures int             // claims that failed in a row
	restTill time.Duration   // since the worker's start: the database is left alone until then
	most     int             // what one claim may ask for: less than maxClaim where larger ones were cut off
	begun    int64           // jobs begun when that number last changed
	begunAt  time.Duration   // since the worker's start: when it did
}

// isDue reports whether a scheduled job is due by what is known, or the poll interval is over. A lane that is
// never dry looks for due jobs all the same, once an interval.
func (c *claimer) isDue() bool {
	now := c.worker.sinceStart()
	due := time.Duration(c.dueAt.Load())
	return (due != 0 && due <= now) || now-c.promoted >= c.worker.config.PollInterval
}

// wait sleeps until something changes: a wake-up, a free slot, a due job, the poll interval.
func (c *claimer) wait(ctx context.Context, full bool) {
	now := c.worker.sinceStart()
	d := c.promoted + c.worker.config.PollInterval - now
	if due := time.Duration(c.dueAt.Load()); due != 0 {
		d = min(d, due-now)
	}
	if full {
		d = c.worker.config.PollInterval
	}
	if len(c.work) > 0 {
		d = min(d, stuckAfter)
	}
	if c.restTill > now {
		d = c.restTill - now
	}
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-c.signal:
	case <-t.C:
	}
}

// claim takes up to n jobs and hands them to the slots.
func (c *claimer) claim(ctx context.Context, n int) {
	w := c.worker
	due := c.isDue()
	if poked := c.poked.Swap(false); poked || due {
		c.promote = true
	}
	if c.promote {
		c.dueAt.Store(0) // the claim answers what comes next
	}
	started := w.sinceStart()
	if started >= c.skipTill {
		c.after = nil
	}
	request := store.ClaimRequest{
		WorkerID: w.ID(), Queue: c.queue, Limit: n, Free: c.free(), WorkKinds: w.workKinds, FinalizeKinds: w.finalizeKinds, After: c.after, Promote: c.promote,
	}
	c.claiming <- struct{}{}
	defer func() { <-c.claiming }()
	// A claim is never cut short by Stop: its commit might land all the same, with nobody to know of it.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	got, err := w.client.store.Claim(limited, request)
	c.polled = w.sinceStart()
	if err != nil {
		c.failed(err, n)
		return
	}
	w.claimTrouble.over()
	c.failures = 0
	c.most = min(2*c.most, maxClaim)
	if c.promote {
		c.promoted = c.polled
		if got.NoLease {
			w.renewSoon()
		}
		c.promote = got.Due >= n // a full batch came due: there are more
	}
	if got.NextDue >= 0 { // a token comes whether or not due jobs were looked for
		c.dueIn(got.NextDue)
	}
	c.careful.Store(got.Careful)
	if len(got.Woken) > 0 {
		w.client.Wake(got.Woken...)
	}
	c.handOut(got.Jobs)
	c.remember(got.Jobs, got.Asked, c.polled-started)
	if got.More && got.Asked > 0 {
		c.dry = false
	}
}

// free is how many jobs a careful claim may take: 0 would mean any number.
func (c *claimer) free() int {
	if free := c.slots - int(c.held.Load()); free > 0 {
		return free
	}
	return -1
}

// failed rests after a claim that the database did not answer, so that neither it nor the log is flooded while it
// is away. What came of the claim is unknown.
func (c *claimer) failed(err error, n int) {
	w := c.worker
	w.claimTrouble.failed(err, "queue", c.queue)
	c.dry, c.promote = true, true
	if store.CutOff(err) {
		c.most = max(min(n, c.most)/4, 1)
	}
	rest := min(claimRetry<<min(c.failures, 10), maxClaimRetry)
	c.failures++
	c.restTill = c.polled + rest/2 + rand.N(rest)
	c.dueIn(c.restTill - c.polled)
}

// shed gives back what was claimed ahead when no slot has begun a job for a while: the jobs turned out to be longer
// than those before them, and others may have slots free. Until short jobs have run again nothing is claimed ahead.
func (c *claimer) shed() {
	now := c.worker.sinceStart()
	if n := c.started.Load(); n != c.begun || len(c.work) == 0 {
		c.begun, c.begunAt = n, now
		return
	}
	if now-c.begunAt < stuckAfter {
		return
	}
	c.meanRun.Store(max(c.meanRun.Load(), int64(stuckAfter)))
	c.releaseAhead()
}

// remember decides where the next claim starts (docs/internals.md, Claim: the cursor).
func (c *claimer) remember(jobs []store.Claim, n int, took time.Duration) {
	c.dry = len(jobs) < n && !c.promote
	fromFront := c.after == nil
	switch {
	case len(jobs) < n:
		if !fromFront { // the queue may have more in front of where this claim began
			c.after, c.skipTill, c.dry = nil, 0, false
		}
	case !fromFront:
		c.after = &jobs[len(jobs)-1].Position
	case took > slowClaim+time.Duration(n)*10*time.Microsecond:
		c.after = &jobs[len(jobs)-1].Position
		c.skipTill = c.polled + min(took*(frontShare-1), maxSkip)
	}
}

func (c *claimer) handOut(jobs []store.Claim) {
	fresh := c.worker.held.take(jobs)
	now := time.Now()
	c.held.Add(int64(len(fresh)))
	if len(c.work) == 0 {
		c.begun, c.begunAt = c.started.Load(), c.polled
	}
	for i := range fresh {
		fresh[i].TakenAt = now
		c.work <- &fresh[i]
	}
}
