package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// TestAReplacementLocksTheJobBeforeItTakesOtherKeys runs into somebody who, like a fan-out, locks the job first and then takes
// a key that the replacement's batch wants too. The other way round the two would wait for each other.
func TestAReplacementLocksTheJobBeforeItTakesOtherKeys(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	id := k.insertOne(replacing("one")).ID
	a := func() *tree.Node { return tree.New(task{}, tree.Dedup("a")) }
	tx, err := k.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM coppice.jobs WHERE id = $1 FOR UPDATE`, int64(id))
	require.NoError(t, err)
	plan, err := tree.NewPlan(a(), replacing("two"))
	require.NoError(t, err)
	got := make(chan []store.Inserted, 1)
	go func() {
		rows, err := k.Insert(t.Context(), plan)
		if err != nil {
			t.Error(err)
		}
		got <- rows
	}()
	k.blocked(1)
	first, err := tree.NewPlan(a())
	require.NoError(t, err)
	made, err := k.InsertTx(t.Context(), store.PgxTx(tx), first)
	require.NoError(t, err)
	require.False(t, made[0].Duplicate)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []store.Inserted{{ID: made[0].ID, Duplicate: true}, {ID: id, Duplicate: true, Replaced: true}}, <-got)
}

// TestAReplacementInALongTransactionHoldsUpNoOutcome leaves a job that runs unlocked: its worker's settles would wait for the
// caller's commit.
func TestAReplacementInALongTransactionHoldsUpNoOutcome(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	id := k.insertOne(replacing("one")).ID
	claims := k.claim(w, tree.DefaultQueue, 1)
	tx, err := k.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	plan, err := tree.NewPlan(replacing("two"))
	require.NoError(t, err)
	rows, err := k.InsertTx(t.Context(), store.PgxTx(tx), plan)
	require.NoError(t, err)
	require.Equal(t, []store.Inserted{{ID: id, Duplicate: true}}, rows)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	settled, err := k.Settle(ctx, w, []store.Ending{completed(&claims[0])})
	require.NoError(t, err)
	require.Empty(t, settled.Lost)
	require.NoError(t, tx.Commit(t.Context()))
}

func TestReplacingAndSkippingWorkInTransactionsOfTheCaller(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	held := in.insert(tree.New(sprig{"first"}, tree.Dedup("replace")), tree.New(sprig{}, tree.Dedup("skip")))
	in.inEach(func(name string, tx store.Tx, _ func(string) error) error {
		rows, err := in.InsertTx(t.Context(), tx, planOf(t,
			tree.New(sprig{name}, tree.Dedup("replace"), tree.OnDuplicate(tree.Replace), tree.Tags("a b", `c"d`), tree.Meta("k", "v"), tree.MaxAge(time.Hour)),
			tree.New(sprig{}).Add(tree.New(sprig{}, tree.Dedup("skip"), tree.OnDuplicate(tree.Skip)).Add(tree.New(sprig{}))),
		))
		if err != nil {
			return err
		}
		require.Equal(t, store.Inserted{ID: held[0].ID, Duplicate: true, Replaced: true}, rows[0], name)
		require.NotZero(t, rows[1].ID)
		require.Equal(t, []store.Inserted{{ID: held[1].ID, Duplicate: true, Skipped: true}, {Skipped: true}}, rows[2:], name)
		return nil
	})
	row := in.job(held[0].ID)
	require.JSONEq(t, `{"name":"sql.Tx of postgres"}`, string(row.Args))
	require.Equal(t, []string{"a b", `c"d`}, row.Tags)
	require.Equal(t, int64(3), row.ClaimSeq)
	require.Equal(t, 2+3, in.count())
	require.Equal(t, 3, in.number(`SELECT count(*) FROM coppice.jobs WHERE state = 'ready' AND round = 1`), "roots that have nobody left to wait for")
}

// TestARefusalNeedsNoSecondConnection adds children to what is gone, through a pool of one.
func TestARefusalNeedsNoSecondConnection(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.onPool(1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, node := range []*tree.Node{wood(), tree.New(task{}, tree.Key("k"))} {
		_, err := s.AddChildren(ctx, 4_711, k.children(node))
		require.Equal(t, &store.NotOpenError{ID: 4_711}, asNotOpen(t, err))
	}
}

func asNotOpen(t *testing.T, err error) *store.NotOpenError {
	t.Helper()
	var not *store.NotOpenError
	require.ErrorAs(t, err, &not)
	return not
}
