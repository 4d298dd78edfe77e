package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// attempt is what classification needs to know of an ended attempt.
type attempt struct {
	claim    *store.Claim
	result   []byte // JSON; nil: none
	skipped  string // why its guard did not let it run; "": it did
	err      error  // what the handler returned
	panicked bool
	stack    string
	cause    error         // context.Cause of the handler's context when it returned, if that had ended
	held     time.Duration // since the claim, which is when AgeLeft was measured
	backoff  tree.Backoff
}

// classify decides what becomes of a failed attempt. Control errors come first, wherever they are in the
// chain; then what cannot be mended by trying again; then what was not the job's fault; all else is an
// ordinary failure, the handler's own timeouts and cancellations included.
func classify(a *attempt) store.Ending {
	e := store.Ending{Fence: a.claim.Fence, ParentID: a.claim.ParentID, Round: a.claim.Round}
	text := errorText(a.err)
	e.Error = tree.CleanText(text, tree.MaxErrorBytes)
	e.Stack = tree.CleanText(a.stack, tree.MaxStackBytes)
	var c *control
	if !a.panicked { // a panic asks for nothing, whatever its value holds
		c = findControl(a.err)
	}
	var undecodable *undecodableError
	var badResult *badResultError
	var badFanOut *badFanOutError
	switch {
	case a.panicked:
		e.Outcome = tree.OutcomePanic
	case c != nil && c.action == actSnooze:
		e.End, e.Delay, e.Error = store.EndSnoozed, clamp(c.delay, tree.MaxDuration), ""
		return e
	case c != nil && c.action == actCancel:
		e.End = store.EndCancelled
		return e
	case c != nil && c.action == actFatal:
		return deadLetter(e, tree.ReasonFatal, tree.OutcomeError)
	case as(a.err, &undecodable):
		return deadLetter(e, tree.ReasonUndecodable, tree.OutcomeUndecodable)
	case as(a.err, &badResult):
		return deadLetter(e, tree.ReasonBadResult, tree.OutcomeBadResult)
	case as(a.err, &badFanOut):
		return deadLetter(e, tree.ReasonBadFanOut, tree.OutcomeBadFanOut)
	case errors.Is(a.cause, ErrShutdown):
		e.End, e.Error = store.EndReleased, ""
		return e
	case errors.Is(a.cause, ErrTimeout):
		e.Outcome = tree.OutcomeTimeout
	default:
		e.Outcome = tree.OutcomeError
	}
	delay := a.backoff.Delay(a.claim.Attempt, rand.Float64())
	if c != nil && c.action == actRetryAfter {
		delay = clamp(c.delay, a.backoff.Cap)
	}
	switch {
	case a.claim.Attempt >= a.claim.MaxAttempts:
		return deadLetter(e, tree.ReasonAttemptsSpent, e.Outcome)
	case a.claim.HasAge && a.held+delay > a.claim.AgeLeft:
		return deadLetter(e, tree.ReasonAgeSpent, e.Outcome)
	}
	e.End, e.Delay = store.EndRetry, delay
	return e
}

func deadLetter(e store.Ending, reason tree.Reason, outcome tree.Outcome) store.Ending {
	e.End, e.Reason, e.Outcome = store.EndDead, reason, outcome
	return e
}

func clamp(d, limit time.Duration) time.Duration { return max(0, min(d, limit)) }

// as is errors.As on a chain that may refer to itself.
func as[T error](err error, into *T) bool {
	return walk(err, func(e error) bool {
		t, ok := e.(T) //nolint:errorlint // walk visits the whole chain itself, bounded
		if ok {
			*into = t
		}
		return ok
	})
}

// errorText is err.Error(), whatever that does.
func errorText(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("%T (its Error method panicked)", err)
		}
	}()
	return err.Error()
}

// endedBy returns why ctx ended, or nil if it has not.
func endedBy(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
