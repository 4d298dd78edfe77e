package tree_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

// bad is a node that is always refused.
func bad() *tree.Node { return tree.New(page{}, tree.MaxAttempts(-1)) }

func leafNode() *tree.Node { return tree.New(page{}) }

// chain makes a tree of n levels and returns its root and its lowest node.
func chain(n int) (root, last *tree.Node) {
	root = leafNode()
	last = root
	for range n - 1 {
		next := leafNode()
		last.Add(next)
		last = next
	}
	return root, last
}

func TestAPlanOfNothingIsEmpty(t *testing.T) {
	t.Parallel()
	plan, err := tree.NewPlan()
	require.NoError(t, err)
	require.Empty(t, plan.Specs)
	require.Zero(t, plan.Roots)
}

func TestAPlanListsEveryNodeBeforeItsChildrenAndWithoutGaps(t *testing.T) {
	t.Parallel()
	name := func(s string, children ...*tree.Node) *tree.Node {
		n := tree.New(page{s})
		if len(children) > 0 {
			n.Add(children...)
		}
		return n
	}
	plan, err := tree.NewPlan(name("a", name("b", name("c"), name("d")), name("e")), name("f"), name("g", name("h")))
	require.NoError(t, err)
	require.Equal(t, 3, plan.Roots)
	var got []string
	for i, s := range plan.Specs {
		got = append(got, fmt.Sprintf("%s %s parent %d root %d children %d", s.Args, plan.Path(i), s.Parent, s.Root, s.Children))
	}
	require.Equal(t, []string{
		`{"name":"a"} root[0] parent -1 root 0 children 2`,
		`{"name":"b"} root[0]/0 parent 0 root 0 children 2`,
		`{"name":"c"} root[0]/0/0 parent 1 root 0 children 0`,
		`{"name":"d"} root[0]/0/1 parent 1 root 0 children 0`,
		`{"name":"e"} root[0]/1 parent 0 root 0 children 0`,
		`{"name":"f"} root[1] parent -1 root 5 children 0`,
		`{"name":"g"} root[2] parent -1 root 6 children 1`,
		`{"name":"h"} root[2]/0 parent 6 root 6 children 0`,
	}, got)
	require.True(t, plan.InTree(0))
	require.True(t, plan.InTree(2))
	require.False(t, plan.InTree(5))
}

func TestAnEmptyAddMakesAFinalizerAtEveryDepth(t *testing.T) {
	t.Parallel()
	plan, err := tree.NewPlan(leafNode().Add(leafNode().Add(leafNode().Add(), leafNode())))
	require.NoError(t, err)
	var got []bool
	for _, s := range plan.Specs {
		got = append(got, s.Finalizes)
	}
	require.Equal(t, []bool{true, true, true, false}, got)
	require.Zero(t, plan.Specs[2].Children)
}

func TestARefusalSaysWhereTheNodeStands(t *testing.T) {
	t.Parallel()
	deep, last := chain(50)
	last.Add(leafNode(), bad())
	eleven, last := chain(11)
	last.Add(bad())
	for want, nodes := range map[string][]*tree.Node{
		"root":                                 {bad()},
		"root[1]":                              {leafNode(), bad()},
		"root/2":                               {leafNode().Add(leafNode(), leafNode(), bad())},
		"root[0]/1/0":                          {leafNode().Add(leafNode(), leafNode().Add(bad())), leafNode()},
		"root" + strings.Repeat("/0", 11):      {eleven},
		"root/0/0/0/0/0/.../0/0/0/0/1":         {deep},
		"root[12]":                             append(leaves(12), bad()),
		"root/" + fmt.Sprint(tree.MaxKeyBytes): {leafNode().Add(append(leaves(tree.MaxKeyBytes), bad())...)},
	} {
		got := refused(t, nodes...)
		require.Equal(t, want, got.Path)
		require.Equal(t, fmt.Sprintf(`coppice: invalid job at %s (kind "page"): max attempts: -1 is outside 1 to 10000`, want), got.Error())
	}
	require.Equal(t, "coppice: invalid job at root: kind: is empty", refused(t, tree.New(kinded(""))).Error())
}

func leaves(n int) []*tree.Node {
	out := make([]*tree.Node, n)
	for i := range out {
		out[i] = leafNode()
	}
	return out
}

func TestANodeStandsInOneForestOnce(t *testing.T) {
	t.Parallel()
	n := leafNode()
	self := leafNode()
	self.Add(self)
	a, b, c := leafNode(), leafNode(), leafNode()
	a.Add(b.Add(c.Add(a)))
	shared := leafNode().Add(leafNode())
	for want, nodes := range map[string][]*tree.Node{
		"root[1]":    {n, n},
		"root/1":     {leafNode().Add(n, n)},
		"root/0":     {self},
		"root/0/0/0": {a},
		"root[1]/0":  {leafNode().Add(shared), leafNode().Add(shared)},
	} {
		got := refused(t, nodes...)
		require.Equal(t, want, got.Path)
		require.Equal(t, "node", got.Field)
		require.Contains(t, got.Problem, "needs a tree.New of its own")
	}
}

func TestANodeMayBePlannedAgain(t *testing.T) {
	t.Parallel()
	n := tree.New(page{}, tree.Tags("a"), tree.WithBackoff(tree.Backoff{Factor: 3})).
		Add(tree.New(page{}, tree.Meta("k", "v")), tree.New(page{}, tree.Key("k")))
	one, err := tree.NewPlan(n)
	require.NoError(t, err)
	two, err := tree.NewPlan(n)
	require.NoError(t, err)
	require.Equal(t, one, two)
	two.Specs[0].Tags[0], two.Specs[1].Meta["k"], two.Specs[0].Backoff.Factor = "b", "w", 9
	three, err := tree.NewPlan(n)
	require.NoError(t, err)
	require.Equal(t, one.Specs[1].Meta, three.Specs[1].Meta, "plans share nothing that is written to")
	require.Equal(t, one.Specs[0].Backoff, three.Specs[0].Backoff)
	n.Add(bad())
	_ = refused(t, n)
	require.Len(t, one.Specs, 3)
}

func TestKeysAreUniqueUnderAParent(t *testing.T) {
	t.Parallel()
	keyed := func(key string) *tree.Node { return tree.New(page{}, tree.Key(key)) }
	_, err := tree.NewPlan(leafNode().Add(keyed("a"), keyed("b").Add(keyed("a"), keyed("b"))), leafNode().Add(keyed("a")))
	require.NoError(t, err)
	got := refused(t, leafNode().Add(leafNode(), keyed("a"), keyed("b"), keyed("a")))
	require.Equal(t, "root/3", got.Path)
	require.Equal(t, "key", got.Field)
	require.Contains(t, got.Problem, `"a" is the key of child 1 too`)
}

func TestARootHasNoKey(t *testing.T) {
	t.Parallel()
	got := refused(t, leafNode(), tree.New(page{}, tree.Key("a")))
	require.Equal(t, "root[1]", got.Path)
	require.Equal(t, "key", got.Field)
	require.Contains(t, got.Problem, "use tree.Dedup")
}

func TestATreeDoesNotTakeADedupKeyThatIsTakenInTheSamePlan(t *testing.T) {
	t.Parallel()
	dedup := func(key string) *tree.Node { return tree.New(page{}, tree.Dedup(key)) }
	for want, nodes := range map[string][]*tree.Node{
		"root/1":    {leafNode().Add(dedup("a"), dedup("a"))},
		"root/0":    {dedup("a").Add(dedup("a"))},
		"root[1]/0": {dedup("a"), leafNode().Add(dedup("a"))},
		"root[1]":   {dedup("a"), dedup("a").Add(leafNode())},
	} {
		got := refused(t, nodes...)
		require.Equal(t, want, got.Path)
		require.Equal(t, "dedup key", got.Field)
		require.Contains(t, got.Problem, `"a" is the key of root`)
	}
	for _, nodes := range [][]*tree.Node{
		{dedup("a"), dedup("b").Add(dedup("c")), dedup("a")},
		{leafNode().Add(dedup("a")), dedup("a")}, // the tree comes first
	} {
		_, err := tree.NewPlan(nodes...)
		require.NoError(t, err)
	}
}
