package store_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// note is a job that says something.
type note struct {
	Text string `json:"text"`
}

func (note) Kind() string { return "task" }

func replacing(text string, options ...tree.Option) *tree.Node {
	return tree.New(note{text}, append([]tree.Option{tree.Dedup("k"), tree.OnDuplicate(tree.Replace)}, options...)...)
}

func (k *kit) insertOne(n *tree.Node) store.Inserted {
	k.t.Helper()
	plan, err := tree.NewPlan(n)
	require.NoError(k.t, err)
	rows, err := k.Insert(k.t.Context(), plan)
	require.NoError(k.t, err)
	require.Len(k.t, rows, 1)
	return rows[0]
}

func TestReplaceTakesTheLiveJobsPlaceUnderItsId(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	first := k.insertOne(replacing("one", tree.Delay(time.Hour), tree.Tags("old"), tree.Group("g"), tree.MaxAttempts(3)))
	require.Equal(t, store.Inserted{ID: first.ID}, first)
	require.Equal(t, store.Inserted{ID: first.ID, Duplicate: true, Replaced: true}, k.insertOne(replacing("two", tree.Queue("q"), tree.Priority(-3))))
	row := k.job(first.ID)
	require.JSONEq(t, `{"text":"two"}`, string(row.Args))
	require.Equal(t, [3]any{"q", -3, tree.Ready}, [3]any{row.Queue, row.Priority, row.State})
	require.Empty(t, row.Tags)
	require.Empty(t, row.GroupKey)
	require.Equal(t, tree.DefaultMaxAttempts, row.MaxAttempts)
	require.Equal(t, int64(1), row.ClaimSeq)
	require.NotNil(t, row.AgeFrom)

	claims := k.claim(w, "q", 1)
	require.Equal(t, store.Inserted{ID: first.ID, Duplicate: true}, k.insertOne(replacing("three")), "what runs is left as it is")
	require.JSONEq(t, `{"text":"two"}`, string(k.job(first.ID).Args))
	k.settle(w, failed(&claims[0]))
	require.True(t, k.insertOne(replacing("four")).Replaced, "what waits for its retry begins anew")
	require.Zero(t, k.job(first.ID).Attempt)
	require.Equal(t, store.Inserted{ID: first.ID, Duplicate: true}, k.insertOne(tree.New(note{"five"}, tree.Dedup("k"))), "ignore is the default")
	claims = k.claim(w, tree.DefaultQueue, 1)
	plan, err := tree.NewFanOut(wood())
	require.NoError(t, err)
	_, err = k.FanOut(t.Context(), w, claims[0].Fence, plan)
	require.NoError(t, err)
	require.False(t, k.insertOne(replacing("six")).Replaced, "a parent is left as it is")
	_, err = tree.NewPlan(wood(replacing("seven")))
	require.ErrorContains(t, err, "is for jobs that stand alone")
	_, err = tree.NewPlan(replacing("eight").Add())
	require.ErrorContains(t, err, "is for jobs that stand alone")
}

func TestOfManyReplacementsAtOnceOneJobIsLeftAndTheLastCounts(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.onPool(10)
	var all sync.WaitGroup
	ids := make([]tree.ID, 50)
	for i := range ids {
		all.Go(func() {
			plan, err := tree.NewPlan(replacing(fmt.Sprint(i)), tree.New(note{}, tree.Dedup(fmt.Sprint(50-i)), tree.OnDuplicate(tree.Replace)))
			if err != nil {
				t.Error(err)
				return
			}
			rows, err := s.Insert(t.Context(), plan)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = rows[0].ID
		})
	}
	all.Wait()
	require.Equal(t, 51, k.number(`SELECT count(*) FROM coppice.jobs`))
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	require.Equal(t, int64(49), k.job(ids[0]).ClaimSeq)
	rows := k.insert(replacing("a"), replacing("b"), replacing("c"))
	require.Equal(t, []tree.ID{ids[0], ids[0], ids[0]}, rows)
	var got note
	require.NoError(t, json.Unmarshal(k.job(ids[0]).Args, &got))
	require.Equal(t, "c", got.Text)
}

func TestOfFiftyWhoInsertOneKeyAtOnceAllGetTheOneJob(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.onPool(25)
	var all sync.WaitGroup
	ids := make([]tree.ID, 50)
	for i := range ids {
		all.Go(func() {
			plan, _ := tree.NewPlan(tree.New(note{}, tree.Dedup("k")))
			rows, err := s.Insert(t.Context(), plan)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = rows[0].ID
		})
	}
	all.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	require.Equal(t, 1, k.number(`SELECT count(*) FROM coppice.jobs`))
}

func TestAReplacementThatMeetsAClaimOrAnEndIsOneOrTheOther(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} {
		k := newKit(t)
		w := k.worker()
		id := k.insertOne(replacing("one")).ID
		// Another transaction claims the job, or ends it, while the replacement waits for its row.
		commit := k.lock(`UPDATE coppice.jobs SET state = 'running', worker_id = $2, claim_seq = claim_seq + 1, attempt = 1 WHERE id = $1`, int64(id), int64(w))
		if ends {
			commit()
			commit = k.lock(`DELETE FROM coppice.jobs WHERE id = $1`, int64(id))
		}
		got := make(chan store.Inserted, 1)
		go func() { got <- k.insertOne(replacing("two")) }()
		k.blocked(1)
		commit()
		in := <-got
		if ends {
			require.False(t, in.Duplicate)
			require.NotEqual(t, id, in.ID)
			continue
		}
		require.Equal(t, store.Inserted{ID: id, Duplicate: true}, in)
	}
}

func TestASkippedNodeLeavesItsTreeWithAllThatIsBelowIt(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	skip := func(key string) *tree.Node {
		return tree.New(task{}, tree.Dedup(key), tree.OnDuplicate(tree.Skip))
	}
	held := k.insert(skip("a"), skip("b"), tree.New(task{}, tree.Dedup("c"), tree.Queue("else")), skip("x"))
	plan, err := tree.NewPlan(
		wood(skip("a").Add(wood()), wood(skip("b")), skip("d")), // a root of three: one is skipped, one has nobody left, one is made
		skip("x").Add(wood(wood())),
		wood(),
	)
	require.NoError(t, err)
	rows, err := k.Insert(t.Context(), plan)
	require.NoError(t, err)
	dup := func(id tree.ID) store.Inserted { return store.Inserted{ID: id, Duplicate: true, Skipped: true} }
	require.Equal(t, dup(held[0]), rows[1])
	require.Equal(t, store.Inserted{Skipped: true}, rows[2])
	require.Equal(t, dup(held[1]), rows[4])
	require.Equal(t, dup(held[3]), rows[6])
	require.Equal(t, store.Inserted{Skipped: true}, rows[8])
	for _, i := range []int{0, 3, 5, 9} {
		require.False(t, rows[i].Skipped)
		require.NotZero(t, rows[i].ID)
	}
	require.Equal(t, 2, k.job(rows[0].ID).Pending)
	require.Equal(t, tree.Ready, k.job(rows[3].ID).State, "a finalizer of nothing")

	claims := k.claim(w, tree.DefaultQueue, 1)
	_, err = tree.NewFanOut(skip("c"), skip("e").Add(skip("c")), wood())
	require.Error(t, err, "one key twice in one tree")
	children, err := tree.NewFanOut(skip("c").Add(wood()), skip("e").Add(skip("d")), wood())
	require.NoError(t, err)
	got, err := k.FanOut(t.Context(), w, claims[0].Fence, children)
	require.NoError(t, err)
	require.Equal(t, 2, got.Made)
	id := k.insert(open())[0]
	added := k.add(id, skip("c"), skip("f"))
	require.Equal(t, 1, added.Made)
	_, err = k.AddChildren(t.Context(), id, k.children(skip("g"), tree.New(task{}, tree.Dedup("c"))))
	var refused *store.DuplicateError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, held[2], refused.ID)
}
