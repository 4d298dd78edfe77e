package tree_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/coppicehq/coppice/tree"
)

// TestGatheringChildrenIsPlanningThemTogether gathers children one by one, in chunks, and compares each chunk with a plan of
// the same children at once.
func TestGatheringChildrenIsPlanningThemTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var g tree.Gather
		for range rapid.IntRange(1, 3).Draw(t, "chunks") {
			var nodes []*tree.Node
			for range rapid.IntRange(0, 5).Draw(t, "children") {
				n := tree.New(page{rapid.StringMatching(`[a-z]{0,9}`).Draw(t, "name")})
				for range rapid.IntRange(0, 3).Draw(t, "grandchildren") {
					n.Add(tree.New(page{}).Add(tree.New(page{})))
				}
				nodes = append(nodes, n)
				require.NoError(t, g.Add(n))
			}
			want, err := tree.NewFanOut(nodes...)
			require.NoError(t, err)
			bytes := 0
			for i := range want.Specs {
				bytes += len(want.Specs[i].Args)
			}
			require.Equal(t, [3]int{want.Roots, len(want.Specs), bytes}, [3]int{g.Children(), g.Nodes(), g.ArgsBytes()})
			got, err := g.Take()
			require.NoError(t, err)
			require.Equal(t, [2]any{want.Roots, len(nodes) == 0 || got.FanOut}, [2]any{got.Roots, true})
			require.Len(t, got.Specs, len(want.Specs))
			for i := range want.Specs {
				w, s := want.Specs[i], got.Specs[i]
				require.Equal(t, [3]int{w.Parent, w.Root, w.Children}, [3]int{s.Parent, s.Root, s.Children})
				require.Equal(t, w.Args, s.Args)
			}
			require.Zero(t, g.Children()+g.Nodes()+g.ArgsBytes())
		}
	})
}

func TestAGatherNumbersItsChildrenFromItsFirst(t *testing.T) {
	t.Parallel()
	var g tree.Gather
	for range 2 {
		require.NoError(t, g.Add(tree.New(page{}, tree.Key("a"))), "each chunk has its own keys")
		_, err := g.Take()
		require.NoError(t, err)
	}
	require.ErrorContains(t, g.Add(tree.New(page{}).Add(tree.New(page{}, tree.Queue("")))), "child[2]/0 (kind \"page\"): queue")

	g = tree.Gather{}
	require.NoError(t, g.Add(tree.New(page{}, tree.Key("a"))))
	require.NoError(t, g.Add(tree.New(page{}, tree.Key("a"))))
	_, err := g.Take()
	require.ErrorContains(t, err, "child[1] (kind \"page\"): key")
	require.ErrorContains(t, g.Add(nil), "child[2]: node: is nil")
}

func TestANodeWithMoreOptionsIsACopy(t *testing.T) {
	t.Parallel()
	node := tree.New(page{}, tree.Queue("a"), tree.Priority(1)).Add(tree.New(page{}))
	more := node.With(tree.Queue("b"))
	for n, queue := range map[*tree.Node]string{node: "a", more: "b"} {
		plan, err := tree.NewPlan(n)
		require.NoError(t, err)
		require.Equal(t, []any{queue, 1, 1}, []any{plan.Specs[0].Queue, plan.Specs[0].Priority, plan.Specs[0].Children})
	}
}
