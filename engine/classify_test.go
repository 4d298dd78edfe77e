package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// wrapper wraps one error, which may be itself.
type wrapper struct{ inner error }

func (w *wrapper) Error() string { return "wrapper" }
func (w *wrapper) Unwrap() error { return w.inner }

// joined wraps several, which may be nil or itself.
type joined struct{ inner []error }

func (j *joined) Error() string   { return "joined" }
func (j *joined) Unwrap() []error { return j.inner }

// chainBomb panics when its chain is walked.
type chainBomb struct{ error }

func (chainBomb) Unwrap() error { panic("no chain") }

// deep wraps err n times.
func deep(n int, err error) error {
	for range n {
		err = &wrapper{err}
	}
	return err
}

// wide joins err with itself so often that a walk without bounds would take 2^n steps.
func wide(n int, err error) error {
	for range n {
		err = &joined{[]error{err, err}}
	}
	return err
}

func TestAnErrorIsClassifiedByWhatIsOutermostInItsChain(t *testing.T) {
	t.Parallel()
	cycle := &wrapper{}
	cycle.inner = cycle
	pair := &joined{}
	pair.inner = []error{pair, pair}
	cases := []struct {
		name   string
		err    error
		state  tree.State
		reason tree.Reason
	}{
		{"plain", errBoom, tree.Scheduled, ""},
		{"fatal", engine.Fatal(errBoom), tree.Dead, tree.ReasonFatal},
		{"wrapped fatal", fmt.Errorf("read the album: %w", engine.Fatal(errBoom)), tree.Dead, tree.ReasonFatal},
		{"fatal in a foreign wrapper", &url.Error{Op: "get", URL: "/", Err: engine.Fatal(errBoom)}, tree.Dead, tree.ReasonFatal},
		{"fatal wraps cancel", engine.Fatal(engine.Cancel(errBoom)), tree.Dead, tree.ReasonFatal},
		{"cancel wraps fatal", engine.Cancel(engine.Fatal(errBoom)), tree.Cancelled, ""},
		{"retry after wraps fatal", engine.RetryAfter(time.Hour, engine.Fatal(errBoom)), tree.Scheduled, ""},
		{"fatal wraps retry after", engine.Fatal(engine.RetryAfter(time.Hour, errBoom)), tree.Dead, tree.ReasonFatal},
		{"fatal behind a plain one in a join", errors.Join(errBoom, engine.Fatal(errBoom)), tree.Dead, tree.ReasonFatal},
		{"the leftmost of a join", errors.Join(errBoom, engine.Cancel(nil), engine.Fatal(nil)), tree.Cancelled, ""},
		{"left and deep comes before right", errors.Join(deep(10, engine.Cancel(nil)), engine.Fatal(nil)), tree.Cancelled, ""},
		{"two %w", fmt.Errorf("%w, then %w", errBoom, engine.Fatal(nil)), tree.Dead, tree.ReasonFatal},
		{"deep", deep(900, engine.Fatal(errBoom)), tree.Dead, tree.ReasonFatal},
		{"deeper than anyone wraps", deep(100_000, engine.Fatal(errBoom)), tree.Scheduled, ""},
		{"wide", wide(60, errBoom), tree.Scheduled, ""},
		{"wide with a fatal at the bottom", wide(60, engine.Fatal(errBoom)), tree.Dead, tree.ReasonFatal},
		{"cycle", cycle, tree.Scheduled, ""},
		{"cycle of joins", pair, tree.Scheduled, ""},
		{"fatal wraps a cycle", engine.Fatal(cycle), tree.Dead, tree.ReasonFatal},
		{"a cycle beside fatal", errors.Join(engine.Fatal(nil), cycle), tree.Dead, tree.ReasonFatal},
		{"empty wrapper", &wrapper{}, tree.Scheduled, ""},
		{"join of nothing", &joined{}, tree.Scheduled, ""},
		{"join of nils and fatal", &joined{[]error{nil, nil, engine.Fatal(nil)}}, tree.Dead, tree.ReasonFatal},
		{"typed nil", error((*wrapper)(nil)), tree.Scheduled, ""},
		{"Unwrap panics", chainBomb{errBoom}, tree.Scheduled, ""},
		{"Unwrap panics beside fatal", errors.Join(chainBomb{errBoom}, engine.Fatal(nil)), tree.Dead, tree.ReasonFatal},
		{"its own deadline", context.DeadlineExceeded, tree.Scheduled, ""},
		{"its own cancellation", fmt.Errorf("post: %w", context.Canceled), tree.Scheduled, ""},
		{"the engine's timeout, returned by hand", engine.ErrTimeout, tree.Scheduled, ""},
		{"the engine's shutdown, returned by hand", engine.ErrShutdown, tree.Scheduled, ""},
		{"a lost claim, returned by hand", engine.ErrClaimLost, tree.Scheduled, ""},
	}
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) { return nil, cases[job.Args.N].err })
	k.work(engine.WorkerConfig{Backoff: &tree.Backoff{Base: time.Hour}})
	nodes := make([]*tree.Node, len(cases))
	for i := range cases {
		nodes[i] = tree.New(task{i})
	}
	receipts, err := k.InsertMany(t.Context(), nodes...)
	require.NoError(t, err)
	for i, c := range cases {
		row := k.await(receipts[i].ID, c.state)
		require.Equal(t, c.reason, row.Reason, c.name)
		require.Equal(t, 1, row.Attempt, c.name)
		if c.state != tree.Cancelled {
			failures := k.failures(row.ID)
			require.Len(t, failures, 1, c.name)
			require.Equal(t, tree.OutcomeError, failures[0].Outcome, c.name)
		}
	}
}

func TestTheDelayOfTheOutermostRetryAfterCounts(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	row := k.fails(engine.RetryAfter(10*time.Minute, engine.RetryAfter(20*time.Minute, errBoom)), tree.Scheduled,
		tree.WithBackoff(tree.Backoff{Cap: time.Hour}))
	require.Equal(t, 10*time.Minute, row.RunAt.Sub(k.failures(row.ID)[0].At))
}

func TestAHandlersOwnTimeoutIsAnOrdinaryFailure(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(ctx context.Context, _ *engine.Job[task]) (any, error) {
		own, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		<-own.Done()
		return nil, fmt.Errorf("post: %w", own.Err())
	}, engine.HandlerTimeout(time.Hour))
	k.work(engine.WorkerConfig{Backoff: &tree.Backoff{Base: time.Hour}})
	row := k.await(k.insert(tree.New(task{})).ID, tree.Scheduled)
	require.Equal(t, 1, row.Attempt)
	failure := k.failures(row.ID)[0]
	require.Equal(t, tree.OutcomeError, failure.Outcome, "not the job's timeout")
	require.Equal(t, "post: context deadline exceeded", failure.Error)
}
