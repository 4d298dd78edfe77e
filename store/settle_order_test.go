package store_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// shuffled is n endings of a mix of ways, in any order; those that come back are ready at once.
func shuffled(rng *rand.Rand, claims []store.Claim) []store.Ending {
	out := make([]store.Ending, len(claims))
	for i := range claims {
		c := &claims[i]
		switch n := rng.IntN(10); {
		case n < 5:
			out[i] = completed(c)
		case n < 7:
			out[i] = dead(c)
		case n < 8:
			out[i] = ending(c, store.EndCancelled)
		case n < 9:
			out[i] = failed(c)
		default:
			out[i] = ending(c, store.EndReleased)
		}
	}
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// TestBatchesThatShareParentsNeverDeadlock deals the children of a few trees, and jobs that stand alone, to several
// connections at random, so that every batch shares parents with every other, in another order.
func TestBatchesThatShareParentsNeverDeadlock(t *testing.T) {
	t.Parallel()
	const hands, parents, children = 6, 8, 12
	times := rounds(40)
	k := newKit(t)
	s, w := k.onPool(hands), k.worker()
	k.watchReadiness()
	rng := rand.New(rand.NewPCG(1, 2))
	for range times {
		var nodes []*tree.Node
		for range parents {
			n := tree.New(task{}, tree.OnDead(tree.Proceed))
			for range children {
				n.Add(tree.New(task{}))
			}
			nodes = append(nodes, n, tree.New(task{}))
		}
		// A root over all, so that the parents' own settles climb too.
		k.insert(tree.New(task{}, tree.OnDead(tree.Proceed)).Add(nodes...))
		k.insert(tree.New(task{}), tree.New(task{}), tree.New(task{}))
		for claims := k.claim(w, tree.DefaultQueue, 1_000); len(claims) > 0; claims = k.claim(w, tree.DefaultQueue, 1_000) {
			all := shuffled(rng, claims)
			hand := make([][]store.Ending, hands)
			for i, e := range all {
				hand[i%hands] = append(hand[i%hands], e)
			}
			together(t, hands, func(i int) error {
				got, err := s.Settle(t.Context(), w, hand[i])
				if err == nil && len(got.Lost) > 0 {
					t.Errorf("lost %v", got.Lost)
				}
				return err
			})
		}
	}
	require.Zero(t, k.number(`SELECT count(*) FROM coppice.jobs`))
	k.requireReadiedOnce(times * (parents + 1))
	k.db.AssertNoDeadlocks(t)
}

// TestSettlesOfOneBatchInTwoHandsEndEachJobOnce settles the same endings from two connections at once, as a worker does
// whose first settle was taken for lost and was not.
func TestSettlesOfOneBatchInTwoHandsEndEachJobOnce(t *testing.T) {
	t.Parallel()
	times := rounds(30)
	k := newKit(t)
	s, w := k.onPool(2), k.worker()
	k.watchReadiness()
	rng := rand.New(rand.NewPCG(3, 4))
	for range times {
		k.insert(append(pairs(5, tree.OnDead(tree.Proceed)), tree.New(task{}), tree.New(task{}))...)
		for claims := k.claim(w, tree.DefaultQueue, 100); len(claims) > 0; claims = k.claim(w, tree.DefaultQueue, 100) {
			all := shuffled(rng, claims)
			got := make([]*store.Settled, 2)
			together(t, 2, func(i int) (err error) {
				got[i], err = s.Settle(t.Context(), w, all)
				return err
			})
			require.Equal(t, len(all), len(got[0].Lost)+len(got[1].Lost), "each ending is written by one and lost by the other")
		}
	}
	k.requireReadiedOnce(5 * times)
}
