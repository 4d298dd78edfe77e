package tree_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/coppicehq/coppice/tree"
)

func TestAFanOutIsOfOneTreeWhoseChildrenMayHaveKeys(t *testing.T) {
	t.Parallel()
	plan, err := tree.NewFanOut(tree.New(page{}, tree.Key("a")), tree.New(page{}))
	require.NoError(t, err)
	require.Equal(t, 2, plan.Roots)
	require.True(t, plan.InTree(1), "a child goes in with its siblings or not at all")
	require.Equal(t, "child[1]", plan.Path(1))

	for problem, children := range map[string][]*tree.Node{
		"child[1] (kind \"page\"): key":       {tree.New(page{}, tree.Key("a")), tree.New(page{}, tree.Key("a"))},
		"child[1] (kind \"page\"): dedup key": {tree.New(page{}, tree.Dedup("a")), tree.New(page{}, tree.Dedup("a"))},
		"child[0]/0":                          {tree.New(page{}).Add(tree.New(page{}, tree.Queue("")))},
		"child[1]":                            {tree.New(page{}), nil},
	} {
		_, err := tree.NewFanOut(children...)
		require.ErrorIs(t, err, tree.ErrInvalid)
		require.ErrorContains(t, err, problem)
	}
	empty, err := tree.NewFanOut()
	require.NoError(t, err)
	require.Empty(t, empty.Specs)
}

// TestLeavingChildrenOutIsPlanningTheOthers compares Without with a plan of what is kept.
func TestLeavingChildrenOutIsPlanningTheOthers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all, kept []*tree.Node
		var out []int // places of what is left out
		place := 0
		for range rapid.IntRange(0, 6).Draw(t, "children") {
			size := rapid.IntRange(0, 3).Draw(t, "grandchildren")
			keep := rapid.Bool().Draw(t, "keep")
			for _, into := range []*[]*tree.Node{&all, &kept} {
				if into == &kept && !keep {
					continue
				}
				n := tree.New(page{})
				for range size {
					n.Add(tree.New(page{}).Add(tree.New(page{})))
				}
				*into = append(*into, n)
			}
			if !keep {
				out = append(out, place)
			}
			place += 1 + 2*size
		}
		plan, err := tree.NewFanOut(all...)
		require.NoError(t, err)
		want, err := tree.NewFanOut(kept...)
		require.NoError(t, err)
		shape := func(p *tree.Plan) (s [][3]int) {
			for _, spec := range p.Specs {
				s = append(s, [3]int{spec.Parent, spec.Root, spec.Children})
			}
			return s
		}
		got, _ := plan.Without(slices.Clone(out))
		require.Equal(t, want.Roots, got.Roots)
		require.Equal(t, shape(want), shape(got))
	})
}
