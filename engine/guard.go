package engine

import (
	"context"
	"fmt"

	"github.com/coppicehq/coppice/tree"
)

// Guard lets a function look, before every attempt of the handler, whether the work is still wanted: it answers why it
// is not, and the job completes without running, recorded in the history as skipped, with that reason; for its parent it has
// completed without a result. With "" the handler runs. An error, or a panic, fails the attempt as one of the
// handler's would. The job's timeout covers the guard. A is that of the handler.
func Guard[A tree.Args](f func(ctx context.Context, job *Job[A]) (skip string, err error)) HandlerOption {
	return func(o *handlerOptions) { o.guard, o.guarded = f, f != nil }
}

// guardOf finds the guard among the options of a handler of A.
func guardOf[A tree.Args](o *handlerOptions) (func(context.Context, *Job[A]) (string, error), error) {
	if o.guard == nil {
		return nil, nil //nolint:nilnil // there is none, and nothing is wrong
	}
	f, ok := o.guard.(func(context.Context, *Job[A]) (string, error))
	switch {
	case !ok:
		var zero A
		return nil, fmt.Errorf("the guard is a %T, for other args than %T", o.guard, zero)
	case !o.guarded:
		return nil, fmt.Errorf("the guard is nil")
	}
	return f, nil
}
