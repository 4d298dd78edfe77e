package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// Causes of a handler's context ending, for errors.Is on context.Cause(ctx).
var (
	// ErrTimeout: the attempt reached the job's timeout.
	ErrTimeout = errors.New("coppice: the job's timeout is over")
	// ErrShutdown: the worker stops and its grace period is over. The attempt costs nothing.
	ErrShutdown = errors.New("coppice: the worker is shutting down")
	// ErrClaimLost: the job is no longer this worker's; nothing that the handler returns is recorded.
	ErrClaimLost = errors.New("coppice: the claim on this job is lost")
)

type action uint8

const (
	actFatal action = iota + 1
	actRetryAfter
	actSnooze
	actCancel
	actFanOut
)

// control is an error that tells the engine what to do.
type control struct {
	action action
	delay  time.Duration
	err    error
	nodes  []*tree.Node // actFanOut
}

func (c *control) Error() string {
	switch {
	case c.err != nil:
		return c.err.Error()
	case c.action == actSnooze:
		return fmt.Sprintf("snoozed for %v", c.delay)
	case c.action == actRetryAfter:
		return fmt.Sprintf("retry after %v", c.delay)
	case c.action == actCancel:
		return "cancelled by its handler"
	case c.action == actFanOut:
		return fmt.Sprintf("fan out to %d children", len(c.nodes))
	}
	return "fatal"
}

func (c *control) Unwrap() error { return c.err }

// Fatal wraps an error that no retry will mend: the job goes to the dead-letter queue at once. A nil err is
// allowed. It is found anywhere in the chain of what the handler returns; of several, the outermost first.
func Fatal(err error) error { return &control{action: actFatal, err: err} }

// RetryAfter fails the attempt like err, and asks for the next one after d instead of after the job's
// backoff. d is clamped to zero and the backoff's cap. The attempt counts.
func RetryAfter(d time.Duration, err error) error {
	return &control{action: actRetryAfter, delay: d, err: err}
}

// Snooze puts the job off for d at no cost: the attempt is given back, nothing is recorded as failed. d is
// clamped to zero and tree.MaxDuration.
func Snooze(d time.Duration) error { return &control{action: actSnooze, delay: d} }

// Cancel ends the job by the handler's own decision: it goes to the history as cancelled, with err, which may
// be nil, as the reason. For its parent it counts as cancelled.
func Cancel(err error) error { return &control{action: actCancel, err: err} }

// FanOut ends the attempt by giving the job children: it waits for them, and then its Finalize handler runs with
// their results. Returned from Finalize it starts another round. The children are inserted, and the job set
// to wait, in one transaction: a crash before it leaves no children behind, and the attempt is made again.
// A round has a budget of attempts of its own; what the handler returns beside the error is dropped.
//
// A child with a tree.Key is not made again when the job has, or had, a child of that key: a handler may ask for
// all of its children each time. When that child is a dead letter, the attempt fails with
// [*DeadChildError]. Children that cannot be inserted as they are send the job to the dead-letter
// queue as tree.ReasonBadFanOut. Without children the job's Finalize handler is ready at once.
func FanOut(children ...*tree.Node) error { return &control{action: actFanOut, nodes: children} }

// DeadChildError refuses a fan-out because one of its children, by its key, is in the dead-letter queue.
type DeadChildError = store.DeadChildError

// maxChain bounds the walk through an error's chain: a chain that refers to itself must not hang a worker.
const maxChain = 1_000

// findControl returns the first control error in err's chain, depth first: what wraps before what is
// wrapped, and the errors of a join from left to right.
func findControl(err error) *control {
	var found *control
	as(err, &found)
	return found
}

// walk visits err's chain until visit answers true, at most maxChain errors of it, and says whether it did.
func walk(err error, visit func(error) bool) bool {
	left := maxChain
	var step func(error) bool
	step = func(e error) bool {
		for e != nil && left > 0 {
			left--
			if visit(e) {
				return true
			}
			many, one := unwrap(e)
			for _, inner := range many {
				if step(inner) {
					return true
				}
			}
			e = one
		}
		return false
	}
	return step(err)
}

// unwrap returns what err wraps: one error or several, or nothing, also when its method panics. Chains come from
// users' code and are walked after the handler has ended, where nothing else would stop a panic.
func unwrap(err error) (many []error, one error) {
	defer func() {
		if recover() != nil {
			many, one = nil, nil
		}
	}()
	switch w := err.(type) { //nolint:errorlint // this is the unwrapping itself
	case interface{ Unwrap() error }:
		return nil, w.Unwrap()
	case interface{ Unwrap() []error }:
		return w.Unwrap(), nil
	}
	return nil, nil
}
