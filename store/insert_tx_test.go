package store_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// inEach runs f in a transaction that is committed, of pgx and of each driver of database/sql. exec runs
// a statement of the caller's in the same transaction.
func (in *intake) inEach(f func(name string, tx store.Tx, exec func(string) error) error) {
	in.t.Helper()
	ctx := in.t.Context()
	require.NoError(in.t, in.inTx(pgx.TxOptions{}, func(tx pgx.Tx) error {
		return f("pgx.Tx", store.PgxTx(tx), func(text string) error {
			_, err := tx.Exec(ctx, text)
			return err
		})
	}), "pgx.Tx")
	for _, driver := range []string{"pgx", "postgres"} {
		require.NoError(in.t, inSQL(ctx, in.open(driver), func(tx *sql.Tx) error {
			return f("sql.Tx of "+driver, store.SQLTx(tx), func(text string) error {
				_, err := tx.ExecContext(ctx, text)
				return err
			})
		}), driver)
	}
}

var errChanged = errors.New("the caller changed its mind")

func TestARollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	for _, n := range []int{1, 5_001} {
		p := planOf(t, sampler(n, n == 1)...)
		err := in.inTx(pgx.TxOptions{}, func(tx pgx.Tx) error {
			out, err := in.InsertTx(t.Context(), store.PgxTx(tx), p)
			require.NoError(t, err)
			require.Len(t, out, n)
			require.Zero(t, in.count(), "nobody sees it before the commit")
			return errChanged
		})
		require.ErrorIs(t, err, errChanged)
		for _, driver := range []string{"pgx", "postgres"} {
			err := inSQL(t.Context(), in.open(driver), func(tx *sql.Tx) error {
				_, err := in.InsertTx(t.Context(), store.SQLTx(tx), p)
				require.NoError(t, err)
				return errChanged
			})
			require.ErrorIs(t, err, errChanged)
		}
		require.Zero(t, in.count())
	}
}

func TestARefusedTreeLeavesTheCallersTransactionUsable(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	in.exec(`CREATE TABLE orders (name text)`)
	holder := in.insert(tree.New(sprig{}, tree.Dedup("held")))[0].ID
	in.inEach(func(name string, tx store.Tx, exec func(string) error) error {
		if err := exec(`INSERT INTO orders VALUES ('before')`); err != nil {
			return err
		}
		p := planOf(t, tree.New(sprig{}), tree.New(sprig{}).Add(tree.New(sprig{}), tree.New(sprig{}, tree.Dedup("held"))))
		out, err := in.InsertTx(t.Context(), tx, p)
		require.Equal(t, &store.DuplicateError{Path: "root[1]/1", Key: "held", ID: holder}, err, name)
		require.Nil(t, out)
		out, err = in.InsertTx(t.Context(), tx, planOf(t, tree.New(sprig{"after"}, tree.Dedup(name))))
		require.NoError(t, err, name)
		require.Len(t, out, 1)
		return exec(`INSERT INTO orders VALUES ('after')`)
	})
	var orders int
	require.NoError(t, in.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM orders`).Scan(&orders))
	require.Equal(t, 6, orders)
	require.Equal(t, 1+3, in.count(), "the holder, and one job of each transaction")
}

// TestAnInsertThatFailsHalfWayLeavesNothingToCommit breaks the second statement of plans that take several.
func TestAnInsertThatFailsHalfWayLeavesNothingToCommit(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	in.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.queue = 'refused' THEN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON coppice.jobs FOR EACH ROW EXECUTE FUNCTION refuse()`)
	root := tree.New(sprig{})
	for range 6_000 {
		root.Add(tree.New(sprig{}))
	}
	plans := map[string]*tree.Plan{
		"chunks": planOf(t, root.Add(tree.New(sprig{}, tree.Queue("refused")))),
		"keyed":  planOf(t, tree.New(sprig{}, tree.Dedup("a")), tree.New(sprig{}, tree.Queue("refused"), tree.Dedup("b"))),
	}
	for kind, p := range plans {
		in.inEach(func(name string, tx store.Tx, _ func(string) error) error {
			_, err := in.InsertTx(t.Context(), tx, p)
			require.ErrorContains(t, err, "no room", "%s by %s", kind, name)
			var state interface{ SQLState() string }
			require.ErrorAs(t, err, &state, "the driver's error is in the chain")
			require.Equal(t, "53100", state.SQLState())
			return nil // and commits
		})
	}
	for kind, p := range plans {
		_, err := in.Insert(t.Context(), p)
		require.ErrorContains(t, err, "insert jobs: ", kind)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		require.Equal(t, "53100", pg.Code)
	}
	_, err := in.Insert(t.Context(), planOf(t, tree.New(sprig{}), tree.New(sprig{}, tree.Queue("refused"))))
	require.ErrorContains(t, err, "no room")
	require.Zero(t, in.count())
	require.Zero(t, in.db.Pool.Stat().AcquiredConns())
}

// stopping is a transaction whose statements fail from the n-th on, as they do when the context ends between
// two of them: nothing is sent, and the transaction goes on.
type stopping struct {
	pgx.Tx
	left   *int
	cancel context.CancelFunc
}

func (s stopping) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := s.Tx.Begin(ctx)
	return stopping{tx, s.left, s.cancel}, err
}

func (s stopping) Query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	if *s.left--; *s.left < 0 {
		s.cancel()
	}
	return s.Tx.Query(ctx, text, args...)
}

func TestAContextThatEndsBetweenStatementsLeavesNothingToCommit(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	in.insert(tree.New(sprig{}, tree.Dedup("held")))
	root := tree.New(sprig{})
	for range 12_000 {
		root.Add(tree.New(sprig{}))
	}
	for kind, p := range map[string]*tree.Plan{
		"chunks": planOf(t, root),
		"keyed":  planOf(t, tree.New(sprig{}).Add(tree.New(sprig{}), tree.New(sprig{}, tree.Dedup("held")))),
	} {
		for n := range 3 {
			err := in.inTx(pgx.TxOptions{}, func(tx pgx.Tx) error {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				left := n
				_, err := in.InsertTx(ctx, store.PgxTx(stopping{tx, &left, cancel}), p)
				require.ErrorIs(t, err, context.Canceled, "%s, statement %d", kind, n)
				_, err = tx.Exec(t.Context(), `SELECT 1`)
				return err // the transaction is usable, and commits
			})
			require.NoError(t, err)
			require.Equal(t, 1, in.count(), "%s, statement %d", kind, n)
		}
	}
}

func TestACancelledInsertLeavesNoConnectionAndNoRow(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	for _, p := range []*tree.Plan{
		planOf(t, tree.New(sprig{}, tree.Dedup("one"))),
		planOf(t, sampler(300, false)...), planOf(t, sampler(500, false)...), planOf(t, sampler(500, true)...),
	} {
		release := in.lockJobs()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := in.Insert(ctx, p)
			failed <- err
		}()
		in.blocked(1)
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		release()
		require.Zero(t, in.count())
		// The pool takes a broken connection apart in the background.
		require.Eventually(t, func() bool { return in.db.Pool.Stat().AcquiredConns() == 0 }, patience, time.Millisecond)
		_, err := in.Insert(ctx, p)
		require.ErrorIs(t, err, context.Canceled)
	}
}

// lockJobs keeps everybody out of the table until release is called.
func (in *intake) lockJobs() (release func()) {
	in.t.Helper()
	conn, err := pgx.Connect(in.t.Context(), in.db.URL)
	require.NoError(in.t, err)
	_, err = conn.Exec(in.t.Context(), `BEGIN; LOCK TABLE coppice.jobs IN ACCESS EXCLUSIVE MODE`)
	require.NoError(in.t, err)
	return func() { require.NoError(in.t, conn.Close(context.Background())) }
}
