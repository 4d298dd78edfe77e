package tree_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/coppicehq/coppice/tree"
)

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
	require.Equal(t, tree.DefaultBackoff, tree.DefaultBackoff.WithDefaults())
}

func TestDelaysGrowFromTheBaseToTheCap(t *testing.T) {
	t.Parallel()
	b := tree.Backoff{Base: time.Second, Factor: 3, Cap: 30 * time.Second}
	for n, want := range map[int]time.Duration{
		math.MinInt: time.Second, 0: time.Second, 1: time.Second, 2: 3 * time.Second, 3: 9 * time.Second,
		4: 27 * time.Second, 5: 30 * time.Second, 1_000_000: 30 * time.Second, math.MaxInt: 30 * time.Second,
	} {
		require.Equal(t, want, b.Delay(n, 0.9), "failure %d", n)
	}
}

func TestJitterLengthensAndNeverPassesTheCap(t *testing.T) {
	t.Parallel()
	b := tree.Backoff{Base: time.Second, Factor: 2, Cap: 3 * time.Second, Jitter: 1}
	require.Equal(t, 1500*time.Millisecond, b.Delay(1, 0.5))
	require.Equal(t, 3*time.Second, b.Delay(2, 0.9))
}

// TestNoCheckedBackoffLeavesItsBounds draws backoffs of any size.
func TestNoCheckedBackoffLeavesItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := tree.Backoff{
			Base:   time.Duration(rapid.Int64().Draw(t, "base")),
			Factor: rapid.Float64().Draw(t, "factor"),
			Cap:    time.Duration(rapid.Int64().Draw(t, "cap")),
			Jitter: rapid.Float64().Draw(t, "jitter"),
		}
		if rapid.Bool().Draw(t, "tame") {
			b.Base, b.Cap = (b.Base&math.MaxInt64)%(tree.MaxDuration+1), 0
			b.Factor = 1 + math.Mod(math.Abs(b.Factor), 99)
			b.Jitter = math.Mod(math.Abs(b.Jitter), 1)
		}
		if b.Check() != nil {
			t.Skip()
		}
		n, r := rapid.Int().Draw(t, "n"), rapid.Float64Range(0, 0.999).Draw(t, "r")
		full := b.WithDefaults()
		if full.Check() != nil || full.Base <= 0 || full.Base > full.Cap {
			t.Fatalf("resolved to %+v", full)
		}
		const grain = 64 // nanoseconds that a float of ten years cannot tell apart
		if d := b.Delay(n, r); d < full.Base-grain || d > full.Cap {
			t.Fatalf("%v is outside %v to %v", d, full.Base, full.Cap)
		}
	})
}
