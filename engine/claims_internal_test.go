package engine

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func claimOf(id tree.ID, seq int64) store.Claim {
	return store.Claim{Fence: store.Fence{ID: id, Seq: seq}}
}

// startOn runs a handler's context for a claim and returns it.
func startOn(t *testing.T, c *claims, f store.Fence) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	require.Equal(t, goRun, c.start(f, cancel))
	return ctx
}

func TestAClaimThatACrashForgotGoesOnUnderItsNumber(t *testing.T) {
	t.Parallel()
	c := newClaims()
	first := c.take([]store.Claim{claimOf(1, 1), claimOf(2, 1)})
	require.Len(t, first, 2)
	ctx := startOn(t, c, first[0].Fence)
	again := c.take([]store.Claim{claimOf(1, 1), claimOf(2, 1), claimOf(3, 1)})
	require.Equal(t, []store.Claim{claimOf(3, 1)}, again, "only what the worker does not hold yet runs")
	require.NoError(t, ctx.Err(), "the handler goes on")
	require.True(t, c.holds(first[0].Fence))
	require.Equal(t, 3, c.size())
}

func TestAClaimUnderAHigherNumberCancelsTheOldHandler(t *testing.T) {
	t.Parallel()
	c := newClaims()
	old := c.take([]store.Claim{claimOf(1, 1)})[0]
	ctx := startOn(t, c, old.Fence)
	now := c.take([]store.Claim{claimOf(1, 3)})
	require.Len(t, now, 1)
	require.ErrorIs(t, context.Cause(ctx), ErrClaimLost)
	require.False(t, c.holds(old.Fence))
	c.stop(old.Fence) // the old handler returns after the new claim
	newCtx := startOn(t, c, now[0].Fence)
	c.stop(old.Fence)
	c.drop([]store.Ending{{Fence: old.Fence}})
	require.True(t, c.holds(now[0].Fence), "what is written for the old claim does not end the new one")
	require.NoError(t, newCtx.Err())
	require.Equal(t, []tree.ID{1}, c.running())
}

func TestAClaimThatWasLostBeforeItsHandlerRanNeverStarts(t *testing.T) {
	t.Parallel()
	c := newClaims()
	old := c.take([]store.Claim{claimOf(1, 1)})[0]
	c.take([]store.Claim{claimOf(1, 2)})
	require.Equal(t, goNot, c.start(old.Fence, func(error) {}))
	c.loseAll()
	require.Equal(t, goNot, c.start(store.Fence{ID: 1, Seq: 2}, func(error) {}))
	require.Zero(t, c.size())
}

func TestLosingAllClaimsCancelsEveryHandlerAndHoldsItsJobUntilItEnds(t *testing.T) {
	t.Parallel()
	c := newClaims()
	var running []context.Context
	for id := range tree.ID(5) {
		running = append(running, startOn(t, c, c.take([]store.Claim{claimOf(id, 1)})[0].Fence))
	}
	c.stop(store.Fence{ID: 3, Seq: 1})
	c.loseAll()
	for id, ctx := range running {
		require.Equal(t, id != 3, errors.Is(context.Cause(ctx), ErrClaimLost), "handler %d", id)
		require.True(t, c.holds(store.Fence{ID: tree.ID(id), Seq: 1}))
	}
	require.Equal(t, []tree.ID{0, 1, 2, 4}, c.running())
	for id := range tree.ID(3) {
		c.stop(store.Fence{ID: id, Seq: 1})
		c.forget(store.Fence{ID: id, Seq: 1})
	}
	require.Equal(t, []tree.ID{4}, c.running())
	require.Equal(t, 2, c.size(), "the one that runs, and the one whose outcome is on its way")
}

// TestAJobMayBeClaimedAgainBeforeItsLastOutcomeIsDropped has the settle's commit visible to a claim before the worker
// hears of it.
func TestAJobMayBeClaimedAgainBeforeItsLastOutcomeIsDropped(t *testing.T) {
	t.Parallel()
	c := newClaims()
	old := c.take([]store.Claim{claimOf(1, 1)})[0]
	startOn(t, c, old.Fence)
	c.stop(old.Fence)
	require.Len(t, c.take([]store.Claim{claimOf(1, 2)}), 1)
	c.drop([]store.Ending{{Fence: old.Fence}})
	require.True(t, c.holds(store.Fence{ID: 1, Seq: 2}))
}

func TestAClaimThatWasHandedOutTwiceStartsOnce(t *testing.T) {
	t.Parallel()
	c := newClaims()
	claim := []store.Claim{{Fence: store.Fence{ID: 1, Seq: 5}}}
	require.Len(t, c.take(claim), 1)
	c.loseAll() // before it started; the server, which crashed, has forgotten the claim
	require.Len(t, c.take(claim), 1, "made anew, under its old number")
	cancel := func(error) {}
	require.Equal(t, goRun, c.start(claim[0].Fence, cancel), "of two in the lane, the first")
	require.Equal(t, goNot, c.start(claim[0].Fence, cancel), "the second, beside it")
	c.stop(claim[0].Fence)
	require.Equal(t, goNot, c.start(claim[0].Fence, cancel), "the second, after it")
}

func TestABatchOfOutcomesIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	s := newSettler(nil, nil, nil, slog.New(slog.DiscardHandler))
	big := make([]byte, 64<<20)
	for range 3 {
		s.add(store.Ending{Result: big}, store.Ending{}, store.Ending{Result: big[:1<<20]})
	}
	var sizes []int
	for batch, _ := s.take(); len(batch) > 0; batch, _ = s.take() {
		sizes = append(sizes, len(batch))
	}
	require.Equal(t, []int{1, 2, 1, 2, 1, 2}, sizes)
}

func TestTroubleThatRepeatsIsLoggedOnceAndThatItIsOver(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	tr := trouble{logger: slog.New(slog.NewTextHandler(&out, nil)), level: slog.LevelWarn, what: "no answer", gone: "it answers"}
	for range 1_000 {
		tr.failed(errors.New("refused"))
	}
	tr.over()
	tr.over()
	tr.failed(errors.New("refused"))
	tr.over()
	require.Equal(t, 1, strings.Count(out.String(), "no answer"))
	require.Equal(t, 1, strings.Count(out.String(), "it answers"))
	tr.logged = tr.logged.Add(-troubleEvery)
	tr.failed(errors.New("refused"))
	require.Contains(t, out.String(), "failures_since=1000")
}
