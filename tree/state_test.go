package tree_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

func TestStatesAreLiveOrNot(t *testing.T) {
	t.Parallel()
	var live []tree.State
	for _, s := range tree.States() {
		if s.Live() {
			live = append(live, s)
		}
	}
	require.Equal(t, []tree.State{tree.Scheduled, tree.Ready, tree.Running, tree.Waiting}, live)
	require.Len(t, tree.States(), 7)
}

// TestReasonsKeepTheirWords holds the catalogue: rows and programs out there have these words.
func TestReasonsKeepTheirWords(t *testing.T) {
	t.Parallel()
	require.Subset(t, tree.Reasons(), []tree.Reason{"fatal", "attempts_spent", "age_spent", "undecodable", "bad_result", "lost"})
	seen := map[tree.Reason]bool{}
	for _, r := range tree.Reasons() {
		require.False(t, seen[r], r)
		seen[r] = true
	}
}

func TestAnIDIsPrintedInDecimal(t *testing.T) {
	t.Parallel()
	require.Equal(t, "9007199254740993", tree.ID(9007199254740993).String())
}
