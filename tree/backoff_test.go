package tree_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/coppicehq/coppice/tree"
)

func TestTheFirstDelayIsTheBaseAndEachNextOneIsTheFactorLonger(t *testing.T) {
	t.Parallel()
	b := tree.Backoff{Base: 100 * time.Millisecond, Factor: 3, Cap: 2 * time.Second}
	for n, want := range map[int]time.Duration{
		-1: 100 * time.Millisecond, 0: 100 * time.Millisecond, // no failure yet counts as the first
		1: 100 * time.Millisecond, 2: 300 * time.Millisecond, 3: 900 * time.Millisecond, 4: 2 * time.Second, 5: 2 * time.Second,
	} {
		require.Equal(t, want, b.Delay(n, 0), "after failure %d", n)
	}
}

func TestJitterOnlyAddsAndTheCapIncludesIt(t *testing.T) {
	t.Parallel()
	b := tree.Backoff{Base: time.Second, Factor: 2, Cap: 3 * time.Second, Jitter: 0.5}
	require.Equal(t, time.Second, b.Delay(1, 0))
	require.Equal(t, 1250*time.Millisecond, b.Delay(1, 0.5))
	require.Equal(t, 2*time.Second, b.Delay(2, 0))
	require.Equal(t, 3*time.Second, b.Delay(2, 1))
	require.Equal(t, 3*time.Second, b.Delay(3, 0.9))
}

func TestABackoffsZeroFieldsGetTheDefaults(t *testing.T) {
	t.Parallel()
	for given, want := range map[tree.Backoff]tree.Backoff{
		{}:                            {Base: time.Second, Factor: 2, Cap: time.Hour},
		{Jitter: 0.5}:                 {Base: time.Second, Factor: 2, Cap: time.Hour, Jitter: 0.5},
		{Base: 2 * time.Hour}:         {Base: 2 * time.Hour, Factor: 2, Cap: 2 * time.Hour},
		{Cap: 100 * time.Millisecond}: {Base: 100 * time.Millisecond, Factor: 2, Cap: 100 * time.Millisecond},
		{Cap: time.Minute, Factor: 1}: {Base: time.Second, Factor: 1, Cap: time.Minute},
	} {
		require.Equal(t, want, given.WithDefaults())
		require.NoError(t, want.Check())
		require.Equal(t, &want, planned(t, tree.WithBackoff(given)).Backoff, "the row says what it means")
	}
	require.Equal(t, tree.DefaultBackoff(), tree.DefaultBackoff().WithDefaults())
}

// TestADelayIsNeverNegativeAndNeverAboveTheCap holds for what Check accepts and, since a worker must not be
// sent into the past by a row that somebody edited, for everything else too.
func TestADelayIsNeverNegativeAndNeverAboveTheCap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := tree.Backoff{
			Base:   time.Duration(rapid.Int64().Draw(t, "base")),
			Cap:    time.Duration(rapid.Int64().Draw(t, "cap")),
			Factor: rapid.Float64().Draw(t, "factor"),
			Jitter: rapid.Float64().Draw(t, "jitter"),
		}
		n, r := rapid.Int().Draw(t, "n"), rapid.Float64Range(0, 1).Draw(t, "r")
		d := b.Delay(n, r)
		require.GreaterOrEqual(t, d, time.Duration(0))
		require.LessOrEqual(t, d, max(0, b.WithDefaults().Cap))
	})
}

func TestADelayOfACheckedBackoffLiesBetweenItsStepAndItsStepWithJitter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := tree.Backoff{
			Base:   time.Duration(rapid.Int64Range(0, int64(tree.MaxDuration)).Draw(t, "base")),
			Factor: rapid.Float64Range(1, 100).Draw(t, "factor"),
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		if rapid.Bool().Draw(t, "capped") {
			b.Cap = time.Duration(rapid.Int64Range(int64(b.Base), int64(tree.MaxDuration)).Draw(t, "cap"))
		}
		require.NoError(t, b.Check())
		n, r := rapid.IntRange(1, math.MaxInt).Draw(t, "n"), rapid.Float64Range(0, 1).Draw(t, "r")
		low, d, high := b.Delay(n, 0), b.Delay(n, r), b.Delay(n, 1)
		require.LessOrEqual(t, low, d)
		require.LessOrEqual(t, d, high)
		require.LessOrEqual(t, low, b.Delay(max(n, n+1), 0), "delays never shrink")
		if w := b.WithDefaults(); w.Base <= w.Cap {
			require.GreaterOrEqual(t, b.Delay(1, r), w.Base-time.Microsecond, "floats round")
		}
	})
}

func TestABackoffThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]tree.Backoff{
		"negative base":      {Base: -1},
		"endless base":       {Base: tree.MaxDuration + 1},
		"negative cap":       {Cap: -1},
		"endless cap":        {Cap: math.MaxInt64},
		"cap below base":     {Base: time.Second, Cap: time.Millisecond},
		"shrinking":          {Factor: 0.5},
		"factor too large":   {Factor: 101},
		"factor no number":   {Factor: math.NaN()},
		"factor infinite":    {Factor: math.Inf(1)},
		"negative jitter":    {Jitter: -0.1},
		"jitter above one":   {Jitter: 1.1},
		"jitter is no ratio": {Jitter: math.NaN()},
	} {
		require.Error(t, b.Check(), name)
	}
	require.NoError(t, tree.Backoff{}.Check())
	require.NoError(t, tree.DefaultBackoff().Check())
	require.NoError(t, tree.Backoff{Base: tree.MaxDuration, Cap: tree.MaxDuration, Factor: 100, Jitter: 1}.Check())
}
