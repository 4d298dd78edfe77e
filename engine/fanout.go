package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// fannedOut writes the fan-out that the attempt ended in, if it did, and answers whether that settled it. It
// works in the handler's slot: a worker makes no more children at once than it runs jobs. What is refused
// becomes the attempt's error.
func (w *Worker) fannedOut(a *attempt) bool {
	c := findControl(a.err)
	if a.panicked || c == nil || c.action != actFanOut {
		return false
	}
	plan, err := tree.NewFanOut(c.nodes...)
	if err != nil {
		a.err = &badFanOutError{err}
		return false
	}
	if err := w.writeFanOut(a.claim, plan); err != nil {
		a.err = err
		return false
	}
	return true
}

// badFanOutError says that the children cannot be inserted: asking for them again would not help.
type badFanOutError struct{ err error }

func (e *badFanOutError) Error() string { return "fan-out refused: " + e.err.Error() }
func (e *badFanOutError) Unwrap() error { return e.err }

// writeFanOut tries for as long as the database does not answer and the lease may hold, like a settle: the fence
// makes a fan-out that was made, and whose answer was lost, come back as lost.
func (w *Worker) writeFanOut(claim *store.Claim, plan *tree.Plan) error {
	deadline := w.sinceStart() + w.config.Lease
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), w.config.Lease)
		got, err := w.client.store.FanOut(ctx, w.ID(), claim.Fence, plan)
		cancel()
		var dead *DeadChildError
		var duplicate *DuplicateError
		switch {
		case err == nil:
			if got.Stopped {
				w.settler.add(w.ending(claim, store.EndStopped))
				return nil
			}
			w.held.forget(claim.Fence)
			if got.Lost && try == 0 {
				w.log(slog.LevelWarn, "coppice: the claim was lost; its fan-out is not made", claim)
			}
			w.client.Wake(got.Woken...)
			return nil
		case errors.As(err, &dead):
			return dead
		case errors.As(err, &duplicate):
			return duplicate
		case store.Refused(err):
			return err // nothing was written, nor would be
		case w.sinceStart() > deadline:
			// Whether it was made is unknown. The job comes back to its queue if it was not: the next beat finds
			// that nobody holds it, or its lease runs out.
			w.held.forget(claim.Fence)
			w.log(slog.LevelWarn, "coppice: fan-out given up", claim, slog.String("error", err.Error()))
			return nil
		}
		w.log(slog.LevelWarn, "coppice: fan-out not written yet; trying again", claim, slog.String("error", err.Error()))
		<-time.After(retryIn(try))
	}
}

// retryIn is how long to wait before trying once more to write an outcome.
func retryIn(try int) time.Duration {
	return min(50*time.Millisecond<<min(try, 10), 5*time.Second)
}
