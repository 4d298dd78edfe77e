package store_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// together calls f for 0 to n-1, each from a goroutine of its own, all released at one moment.
func together(t testing.TB, n int, f func(i int) error) {
	t.Helper()
	var ready sync.WaitGroup
	release := make(chan struct{})
	var group errgroup.Group
	ready.Add(n)
	for i := range n {
		group.Go(func() error {
			ready.Done()
			<-release
			return f(i)
		})
	}
	ready.Wait()
	close(release)
	require.NoError(t, group.Wait())
}

// race settles one claim on each side at the same moment and says how many of the two settles woke a queue.
func race(t testing.TB, s *store.Store, worker tree.WorkerID, sides ...store.Ending) (woke int) {
	t.Helper()
	got := make([]*store.Settled, len(sides))
	together(t, len(sides), func(i int) (err error) {
		got[i], err = s.Settle(t.Context(), worker, sides[i:i+1])
		return err
	})
	for _, g := range got {
		require.Empty(t, g.Lost)
		woke += len(g.Woken)
	}
	return woke
}

// pairs are n parents of two children.
func pairs(n int, options ...tree.Option) []*tree.Node {
	nodes := make([]*tree.Node, n)
	for i := range nodes {
		nodes[i] = tree.New(task{}, options...).Add(tree.New(task{}), tree.New(task{}))
	}
	return nodes
}

func TestTheLastTwoChildrenSettledAtOnceMakeTheirParentReadyOnce(t *testing.T) {
	t.Parallel()
	parents := rounds(1_000)
	k := newKit(t)
	s, w := k.onPool(2), k.worker()
	k.insert(pairs(parents)...)
	k.watchReadiness()
	claims := k.claim(w, tree.DefaultQueue, 2*parents)
	require.Len(t, claims, 2*parents)
	for i := 0; i < len(claims); i += 2 {
		require.Equal(t, claims[i].ParentID, claims[i+1].ParentID)
		require.Equal(t, 1, race(t, s, w, completed(&claims[i]), completed(&claims[i+1])))
	}
	k.requireReadiedOnce(parents)
	require.Len(t, k.claim(w, tree.DefaultQueue, 2*parents), parents)
}

func TestTheLastTwoChildrenMayEndInEveryTwoWaysAtOnce(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*store.Claim) store.Ending{
		"completed": completed, "dead": dead,
		"cancelled": func(c *store.Claim) store.Ending { return ending(c, store.EndCancelled) },
	}
	each := rounds(20)
	k := newKit(t)
	s, w := k.onPool(2), k.worker()
	k.watchReadiness()
	readied := 0
	for left, endLeft := range ends {
		for right, endRight := range ends {
			for _, policy := range []tree.DeadPolicy{tree.Wait, tree.Proceed} {
				k.insert(pairs(each, tree.OnDead(policy), tree.Queue("parents"))...)
				claims := k.claim(w, tree.DefaultQueue, 2*each)
				require.Len(t, claims, 2*each)
				stalls := policy == tree.Wait && (left == "dead" || right == "dead")
				for i := 0; i < len(claims); i += 2 {
					woke := race(t, s, w, endLeft(&claims[i]), endRight(&claims[i+1]))
					require.Equal(t, !stalls, woke == 1, "%s and %s under a parent that will %s", left, right, policy)
				}
				if !stalls {
					readied += each
				}
			}
		}
	}
	k.requireReadiedOnce(readied)
	require.Len(t, k.claim(w, "parents", 10_000), readied)
}

func TestFinalizersThatEndAtOnceMakeTheirOwnParentReadyOnce(t *testing.T) {
	t.Parallel()
	trees := rounds(80)
	k := newKit(t)
	s, w := k.onPool(4), k.worker()
	roots := make([]*tree.Node, trees)
	for i := range roots {
		roots[i] = tree.New(task{}, tree.Queue("roots")).Add(pairs(2, tree.Queue("middle"))...)
	}
	k.insert(roots...)
	k.watchReadiness()
	leaves := k.claim(w, tree.DefaultQueue, 4*trees)
	require.Len(t, leaves, 4*trees)
	for i := 0; i < len(leaves); i += 4 {
		woke := race(t, s, w, completed(&leaves[i]), completed(&leaves[i+1]), completed(&leaves[i+2]), completed(&leaves[i+3]))
		require.Equal(t, 2, woke)
		middle := k.claim(w, "middle", 10)
		require.Len(t, middle, 2)
		require.Empty(t, k.claim(w, "roots", 10), "a root ran before its children")
		require.Equal(t, 1, race(t, s, w, completed(&middle[0]), completed(&middle[1])))
		root := k.claim(w, "roots", 10)
		require.Len(t, root, 1)
		require.Equal(t, 2, root[0].Completed)
		k.settle(w, completed(&root[0]))
	}
	k.requireReadiedOnce(3 * trees)
	require.Zero(t, k.number(`SELECT count(*) FROM coppice.jobs`))
	require.Zero(t, k.number(`SELECT count(*) FROM coppice.results`))
	require.Equal(t, 7*trees, k.number(`SELECT count(*) FROM coppice.history`))
}

// TestFinalizersRaceTheLeavesOfTheirSiblings lets a finalizer and its sibling's last leaf end at once, so that one
// settle writes to the row that the other one's parent is.
func TestFinalizersRaceTheLeavesOfTheirSiblings(t *testing.T) {
	t.Parallel()
	trees := rounds(80)
	k := newKit(t)
	s, w := k.onPool(3), k.worker()
	roots := make([]*tree.Node, trees)
	for i := range roots {
		roots[i] = tree.New(task{}, tree.Queue("roots")).Add(
			tree.New(task{}, tree.Queue("middle")).Add(tree.New(task{}, tree.Queue("first"))),
			tree.New(task{}, tree.Queue("middle")).Add(tree.New(task{})),
			tree.New(task{}),
		)
	}
	k.insert(roots...)
	k.watchReadiness()
	first := k.claim(w, "first", trees)
	require.Len(t, first, trees)
	leaves := k.claim(w, tree.DefaultQueue, 2*trees)
	require.Len(t, leaves, 2*trees)
	for i := range trees {
		k.settle(w, completed(&first[i]))
		middle := k.claim(w, "middle", 10)
		require.Len(t, middle, 1)
		require.Equal(t, 1, race(t, s, w, completed(&middle[0]), completed(&leaves[2*i]), completed(&leaves[2*i+1])))
		middle = k.claim(w, "middle", 10)
		require.Len(t, middle, 1)
		require.Empty(t, k.claim(w, "roots", 10), "a root ran before its children")
		require.Len(t, k.settle(w, completed(&middle[0])).Woken, 1)
		root := k.claim(w, "roots", 10)
		require.Len(t, root, 1)
		k.settle(w, completed(&root[0]))
	}
	k.requireReadiedOnce(3 * trees)
}

func TestSixtyFourChildrenEndAtOnce(t *testing.T) {
	t.Parallel()
	const children = 64
	times := rounds(100)
	ends := []func(*store.Claim) store.Ending{
		completed, completed, dead, func(c *store.Claim) store.Ending { return ending(c, store.EndCancelled) },
	}
	k := newKit(t)
	s, w := k.onPool(children), k.worker()
	k.watchReadiness()
	for range times {
		root := tree.New(task{}, tree.OnDead(tree.Proceed))
		for range children {
			root.Add(tree.New(task{}))
		}
		k.insert(root)
		claims := k.claim(w, tree.DefaultQueue, children)
		require.Len(t, claims, children)
		sides := make([]store.Ending, children)
		for i := range sides {
			sides[i] = ends[i%len(ends)](&claims[i])
		}
		require.Equal(t, 1, race(t, s, w, sides...))
		roots := k.claim(w, tree.DefaultQueue, children)
		require.Len(t, roots, 1)
		require.Equal(t, [3]int{children / 2, children / 4, children / 4}, [3]int{roots[0].Completed, roots[0].Dead, roots[0].Cancelled})
		k.settle(w, completed(&roots[0]))
	}
	k.requireReadiedOnce(times)
}
