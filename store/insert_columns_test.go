package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// stored inserts one job, alone and among so many that they are streamed, and hands the rows to check.
func stored(t *testing.T, check func(*testing.T, *store.JobRow), options ...tree.Option) {
	t.Helper()
	t.Parallel()
	in := newIntake(t)
	many := sampler(500, false)
	for _, nodes := range [][]*tree.Node{{tree.New(sprig{}, options...)}, append(many, tree.New(sprig{}, options...))} {
		out := in.insert(nodes...)
		row, err := in.Job(t.Context(), out[len(out)-1].ID)
		require.NoError(t, err)
		check(t, row)
	}
}

func TestAJobWithoutOptionsIsStoredWithTheDefaults(t *testing.T) {
	stored(t, func(t *testing.T, row *store.JobRow) {
		t.Helper()
		require.Equal(t, tree.Ready, row.State)
		require.Equal(t, row.CreatedAt, row.RunAt)
		require.Equal(t, row.ID, row.RootID)
		require.Zero(t, row.ParentID)
		require.Equal(t, "default", row.Queue)
		require.Equal(t, "sprig", row.Kind)
		require.Equal(t, tree.DefaultMaxAttempts, row.MaxAttempts)
		require.Equal(t, tree.Wait, row.OnDead)
		require.Equal(t, tree.LostRetry, row.OnLost)
		require.JSONEq(t, `{}`, string(row.Args))
		for _, unset := range []any{
			row.Timeout, row.MaxAge, row.BackoffBase, row.BackoffCap, row.BackoffFactor, row.BackoffJitter,
			row.KeepFor, row.Tags, row.Meta, row.DedupKey, row.ChildKey, row.Round, row.Pending, row.Attempt, row.Priority,
		} {
			require.Zero(t, unset)
		}
	})
}

func TestOptionsAreStoredInTheirColumns(t *testing.T) {
	stored(t, func(t *testing.T, row *store.JobRow) {
		t.Helper()
		require.Equal(t, "media", row.Queue)
		require.Equal(t, -3, row.Priority)
		require.Equal(t, 7, row.MaxAttempts)
		require.Equal(t, 2*time.Second, row.Timeout)
		require.Equal(t, time.Hour, row.MaxAge)
		require.Equal(t, 3*time.Second, row.BackoffBase)
		require.Equal(t, time.Hour, row.BackoffCap, "a zero cap is stored as what it means")
		require.InDelta(t, 2, row.BackoffFactor, 0)
		require.InDelta(t, 0.25, row.BackoffJitter, 0)
		require.Zero(t, *row.KeepFor)
		require.Equal(t, []string{`q"b\c`, "{x,y}", "NULL", "木"}, row.Tags)
		verbatim(t, `{"a":"\u003c","b":""}`, string(row.Meta))
		require.Equal(t, tree.Proceed, row.OnDead)
		require.Equal(t, tree.LostDeadLetter, row.OnLost)
		require.Equal(t, 3, row.TolerateCount)
		require.InDelta(t, 0.7, row.TolerateRatio, 1e-6)
	},
		tree.Queue("media"), tree.Priority(-3), tree.MaxAttempts(7), tree.Timeout(2*time.Second), tree.MaxAge(time.Hour),
		tree.WithBackoff(tree.Backoff{Base: 3 * time.Second, Jitter: 0.25}), tree.KeepFor(0),
		tree.Tags(`q"b\c`, "{x,y}", "NULL", "木"), tree.Meta("b", ""), tree.Meta("a", "<"),
		tree.OnDead(tree.Proceed), tree.OnLost(tree.LostDeadLetter), tree.Tolerate(3), tree.TolerateRatio(0.7))
}

func TestNoTimeoutIsStoredAsSuch(t *testing.T) {
	stored(t, func(t *testing.T, row *store.JobRow) {
		t.Helper()
		require.Equal(t, tree.NoTimeout, row.Timeout)
	}, tree.Timeout(tree.NoTimeout))
}

func TestADelayedJobIsScheduled(t *testing.T) {
	stored(t, func(t *testing.T, row *store.JobRow) {
		t.Helper()
		require.Equal(t, tree.Scheduled, row.State)
		require.Equal(t, time.Hour, row.RunAt.Sub(row.CreatedAt))
	}, tree.Delay(time.Hour))
}

func TestADelayIsRoundedUpToAMillisecond(t *testing.T) {
	stored(t, func(t *testing.T, row *store.JobRow) {
		t.Helper()
		require.Equal(t, tree.Scheduled, row.State)
		require.Equal(t, time.Millisecond, row.RunAt.Sub(row.CreatedAt))
	}, tree.Delay(1))
}

func TestADueTimeInThePastMeansAtOnce(t *testing.T) {
	stored(t, func(t *testing.T, row *store.JobRow) {
		t.Helper()
		require.Equal(t, tree.Ready, row.State)
		require.Equal(t, row.CreatedAt, row.RunAt)
	}, tree.At(time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)))
}

func TestADueTimeInTheFutureIsKeptWhateverItsZone(t *testing.T) {
	due := time.Date(2300, 6, 1, 12, 0, 0, 123_456_999, time.FixedZone("odd", 5*3600+1234))
	stored(t, func(t *testing.T, row *store.JobRow) {
		t.Helper()
		require.Equal(t, tree.Scheduled, row.State)
		require.True(t, due.Truncate(time.Microsecond).Equal(row.RunAt), row.RunAt)
	}, tree.At(due))
}

func TestEmptyFanOutsAreReadyAtEveryDepth(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	empty := func() *tree.Node { return tree.New(sprig{}).Add() }
	out := in.insert(empty(), tree.New(sprig{}).Add(empty(), tree.New(sprig{}).Add(empty(), tree.New(sprig{}), empty())))
	var states []tree.State
	var rounds []int
	for _, one := range out {
		row, err := in.Job(t.Context(), one.ID)
		require.NoError(t, err)
		states, rounds = append(states, row.State), append(rounds, row.Round)
	}
	require.Equal(t, []tree.State{tree.Ready, tree.Waiting, tree.Ready, tree.Waiting, tree.Ready, tree.Ready, tree.Ready}, states)
	require.Equal(t, []int{1, 1, 1, 1, 1, 0, 1}, rounds)
}

func TestAFinalizerWithADelayWaitsForItsChildren(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	out := in.insert(tree.New(sprig{}, tree.Delay(time.Hour)).Add(tree.New(sprig{})), tree.New(sprig{}, tree.Delay(time.Hour)).Add())
	for i, want := range []tree.State{tree.Waiting, tree.Ready, tree.Scheduled} {
		row, err := in.Job(t.Context(), out[i].ID)
		require.NoError(t, err)
		require.Equal(t, want, row.State)
	}
}

func TestArgsComeBackByteForByte(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	for _, text := range []string{
		`{"b":1.50,"a":1,"b":2}`, `1e400`, `123456789012345678901234567890.10`, `"\u00e4ä\ud83d\ude00😀"`, `null`, `-0`,
		`"\\u0000"`, `"\/"`, "\"\uFFFD\"",
	} {
		row, err := in.Job(t.Context(), in.insert(tree.New(raw(text)))[0].ID)
		require.NoError(t, err)
		require.Equal(t, text, string(row.Args))
	}
}

// TestIdsMayBeAsLargeAsTheyGet inserts and reads across the borders of 32 bits and of what a float64 counts.
func TestIdsMayBeAsLargeAsTheyGet(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	for _, first := range []int64{1<<31 - 2, 1 << 53, 1<<63 - 1 - 600} {
		in.exec(`SELECT setval('coppice.job_ids', $1)`, first-1)
		in.exec(`TRUNCATE coppice.jobs`)
		out := in.insert(tree.New(sprig{}).Add(tree.New(sprig{}), tree.New(sprig{}).Add(tree.New(sprig{}))))
		require.Equal(t, tree.ID(first), out[0].ID)
		require.Equal(t, tree.ID(first+3), out[3].ID)
		row, err := in.Job(t.Context(), out[3].ID)
		require.NoError(t, err)
		require.Equal(t, out[0].ID, row.RootID)
		require.Equal(t, out[2].ID, row.ParentID)
		out = in.insert(sampler(500, true)...)
		require.Equal(t, tree.ID(first+4), out[0].ID)
	}
}
