package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// claimedUpTo is n jobs of which the last has the id.
func claimedUpTo(id tree.ID, n int) []store.Claim {
	jobs := make([]store.Claim, n)
	jobs[n-1].Position.ID = id
	return jobs
}

// TestTheCursorIsForSlowClaimsAlone: where claims from the front are fast there is nothing to walk past, and the
// order of the queue counts.
func TestTheCursorIsForSlowClaimsAlone(t *testing.T) {
	t.Parallel()
	c := claimer{polled: time.Minute}
	c.remember(claimedUpTo(7, 100), 100, slowClaim+100*10*time.Microsecond)
	require.Nil(t, c.after, "just fast enough")
	c.remember(claimedUpTo(7, 100), 100, slowClaim+100*10*time.Microsecond+1)
	require.Equal(t, tree.ID(7), c.after.ID)
	require.False(t, c.dry)
}

func TestSlowClaimsFromTheFrontGetATenthOfTheTime(t *testing.T) {
	t.Parallel()
	for took, skip := range map[time.Duration]time.Duration{
		10 * time.Millisecond: 90 * time.Millisecond, 100 * time.Millisecond: 900 * time.Millisecond,
		time.Second: time.Second, // and no job that comes in front waits for longer
	} {
		c := claimer{polled: time.Minute}
		c.remember(claimedUpTo(1, 1), 1, took)
		require.Equal(t, time.Minute+skip, c.skipTill)
	}
}

func TestTheCursorMovesOnAndGoesBackToTheFrontWhenItFindsTooLittle(t *testing.T) {
	t.Parallel()
	c := claimer{after: &store.Position{ID: 7}, skipTill: time.Hour}
	c.remember(claimedUpTo(9, 10), 10, time.Second)
	require.Equal(t, tree.ID(9), c.after.ID)
	require.Equal(t, time.Hour, c.skipTill, "the look at the front is not put off")
	c.remember(claimedUpTo(11, 9), 10, time.Second)
	require.Nil(t, c.after)
	require.False(t, c.dry, "the queue may have more in front")
	c.remember(claimedUpTo(12, 9), 10, time.Second)
	require.True(t, c.dry)
}
