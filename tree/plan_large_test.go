package tree_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

func TestAChainIsAcceptedDownToTheDepthLimit(t *testing.T) {
	t.Parallel()
	root, last := chain(tree.MaxDepth)
	plan, err := tree.NewPlan(root)
	require.NoError(t, err)
	require.Len(t, plan.Specs, tree.MaxDepth)
	require.Equal(t, tree.MaxDepth-2, plan.Specs[tree.MaxDepth-1].Parent)

	last.Add(leafNode())
	got := refused(t, root)
	require.Equal(t, "node", got.Field)
	require.Contains(t, got.Problem, "deeper than the 10000 levels")
	require.Equal(t, "root/0/0/0/0/0/.../0/0/0/0/0", got.Path)
}

// TestAForestIsAcceptedUpToTheNodeLimit does so with a limit that takes no minute to reach.
func TestAForestIsAcceptedUpToTheNodeLimit(t *testing.T) {
	t.Parallel()
	require.Equal(t, 1_000_000, tree.MaxNodes)
	const most = 1_000
	roots := []*tree.Node{leafNode().Add(leaves(most - 2)...), leafNode(), leafNode()}
	plan, err := tree.NewPlanOf(most, roots[:2]...)
	require.NoError(t, err)
	require.Len(t, plan.Specs, most)

	_, err = tree.NewPlanOf(most, roots...)
	var got *tree.InvalidError
	require.ErrorAs(t, err, &got)
	require.Equal(t, "root[2]", got.Path)
	require.Equal(t, "node", got.Field)
	require.Contains(t, got.Problem, "one more than the 1000 jobs")
}
