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

func TestAForestIsAcceptedUpToTheNodeLimit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("plans a million nodes")
	}
	// The refusal names the node behind a million that were accepted.
	got := refused(t, leafNode().Add(leaves(tree.MaxNodes-1)...), leafNode())
	require.Equal(t, "root[1]", got.Path)
	require.Equal(t, "node", got.Field)
	require.Contains(t, got.Problem, "one more than the 1000000 jobs")
}
