package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// keyed is a job that stands alone, with a dedup key.
func keyed(key string) *tree.Node { return tree.New(sprig{}, tree.Dedup(key)) }

func TestAHeldKeyIsAnsweredWithTheLiveJob(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	first := in.insert(keyed("a"))[0]
	require.False(t, first.Duplicate)
	require.Equal(t, []store.Inserted{{ID: first.ID, Duplicate: true}}, in.insert(keyed("a")))
	in.inEach(func(name string, tx store.Tx, _ func(string) error) error {
		out, err := in.InsertTx(t.Context(), tx, planOf(t, keyed("a"), keyed(name)))
		require.NoError(t, err, name)
		require.Equal(t, store.Inserted{ID: first.ID, Duplicate: true}, out[0], name)
		require.False(t, out[1].Duplicate)
		return nil
	})
	out := in.insert(keyed("a").Add())
	require.True(t, out[0].Duplicate, "a finalizer of nothing stands alone too")
	in.complete(first.ID)
	require.False(t, in.insert(keyed("a"))[0].Duplicate)
}

func TestOfTwoJobsWithOneKeyInOneInsertTheFirstIsMade(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	out := in.insert(keyed("b"), keyed("a"), tree.New(sprig{}), keyed("b"), tree.New(sprig{}).Add(keyed("c")), keyed("c"))
	require.Equal(t, store.Inserted{ID: out[0].ID, Duplicate: true}, out[3])
	require.Equal(t, store.Inserted{ID: out[5].ID, Duplicate: true}, out[6])
	require.Equal(t, 5, in.count())
}

func TestKeysAreComparedByteForByte(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	out := in.insert(keyed("a"), keyed("A"), keyed("a "), keyed("é"), keyed("e\u0301"), keyed(strings.Repeat("x", tree.MaxKeyBytes)))
	for _, one := range out {
		require.False(t, one.Duplicate)
	}
}

func TestATreeWithAHeldKeyIsRefusedWhole(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	holder := in.insert(keyed("a"), keyed("b"))
	for _, n := range []int{2, 6_000} {
		root := tree.New(sprig{})
		for i := range n {
			root.Add(keyed(fmt.Sprint("fresh ", i)))
		}
		p := planOf(t, keyed("single"), root.Add(keyed("b"), keyed("a")))
		_, err := in.Insert(t.Context(), p)
		require.Equal(t, &store.DuplicateError{Path: fmt.Sprintf("root[1]/%d", n), Key: "b", ID: holder[1].ID}, err)
		require.ErrorContains(t, err, fmt.Sprintf(`dedup key "b" of root[1]/%d is held by live job %d; wait for that job`, n, holder[1].ID))
		require.Equal(t, 2, in.count(), "nothing of the insert is there, its single job included")
	}
	_, err := in.Insert(t.Context(), planOf(t, keyed("a").Add(tree.New(sprig{}))))
	require.Equal(t, &store.DuplicateError{Path: "root", Key: "a", ID: holder[0].ID}, err)
}

// meddling is a transaction that calls before each lookup of who holds a key.
type meddling struct {
	pgx.Tx
	before func()
}

func (m meddling) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := m.Tx.Begin(ctx)
	return meddling{tx, m.before}, err
}

func (m meddling) Query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	if strings.HasPrefix(text, "SELECT dedup_key") {
		m.before()
	}
	return m.Tx.Query(ctx, text, args...)
}

// TestAKeyThatIsFreedWhileItsHolderIsLookedUpIsTaken ends the holder between the insert that met it and the lookup.
func TestAKeyThatIsFreedWhileItsHolderIsLookedUpIsTaken(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	for name, node := range map[string]*tree.Node{"a job": keyed("a"), "a tree": tree.New(sprig{}).Add(keyed("a"), keyed("b"))} {
		in.exec(`TRUNCATE coppice.jobs`)
		holder := in.insert(keyed("a"))[0].ID
		err := in.inTx(pgx.TxOptions{}, func(tx pgx.Tx) error {
			meddled := 0
			out, err := in.InsertTx(t.Context(), store.PgxTx(meddling{tx, func() { meddled++; in.complete(holder) }}), planOf(t, node))
			require.NoError(t, err, name)
			require.False(t, out[0].Duplicate)
			require.Equal(t, 1, meddled)
			return nil
		})
		require.NoError(t, err)
	}
}

func TestHoldersThatComeAndGoForEverAreGivenUpOn(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	holder := in.insert(keyed("a"))[0].ID
	err := in.inTx(pgx.TxOptions{}, func(tx pgx.Tx) error {
		gone := meddling{tx, func() { in.complete(holder) }}
		back := func() { holder = in.insert(keyed("a"))[0].ID }
		_, err := in.InsertTx(t.Context(), store.PgxTx(reviving{gone, back}), planOf(t, keyed("a")))
		return err
	})
	require.ErrorContains(t, err, "came and went too fast; insert again")
}

// reviving calls after whenever a savepoint was undone.
type reviving struct {
	pgx.Tx
	after func()
}

func (r reviving) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := r.Tx.Begin(ctx)
	return reviving{tx, r.after}, err
}

func (r reviving) Rollback(ctx context.Context) error {
	err := r.Tx.Rollback(ctx)
	r.after()
	return err
}

// TestASnapshotThatCannotSeeTheHolderSaysSo begins the caller's transaction before the holder is inserted.
func TestASnapshotThatCannotSeeTheHolderSaysSo(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		key := string(level)
		err := in.inTx(pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			var n int
			if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM coppice.jobs`).Scan(&n); err != nil {
				return err
			}
			in.insert(keyed(key))
			_, err := in.InsertTx(t.Context(), store.PgxTx(tx), planOf(t, keyed(key)))
			require.ErrorContains(t, err, "held by a job that this transaction cannot see")
			require.ErrorContains(t, err, "READ COMMITTED")
			require.True(t, store.Retryable(err), "whoever retries such failures does so here")
			var pg *pgconn.PgError
			require.ErrorAs(t, err, &pg)
			_, err = in.InsertTx(t.Context(), store.PgxTx(tx), planOf(t, keyed(key+" of its own"), keyed(key+" of its own")))
			return err
		})
		require.NoError(t, err, "the transaction stays usable")
	}
	require.Equal(t, 4, in.count())
}
