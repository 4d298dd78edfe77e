package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// scanner is what pgx.Rows and sql.Rows have in common.
type scanner interface {
	Next() bool
	Scan(into ...any) error
	Err() error
}

// Tx is the caller's transaction, of pgx or of database/sql, as the statements of an insert see it.
type Tx interface {
	query(ctx context.Context, text string, args []any, rows func(scanner) error) error
	// guard runs f so that a refused insert inside it leaves the transaction as it was.
	guard(ctx context.Context, f func(Tx) error) error
}

// PgxTx lets statements run in a transaction of pgx.
func PgxTx(tx pgx.Tx) Tx { return pgxTx{tx} }

// SQLTx lets statements run in a transaction of database/sql, of any driver for PostgreSQL: parameters
// travel as text.
func SQLTx(tx *sql.Tx) Tx { return sqlTx{tx} }

type pgxTx struct{ tx pgx.Tx }

func (t pgxTx) query(ctx context.Context, text string, args []any, read func(scanner) error) error {
	return queryPgx(ctx, t.tx, text, args, read)
}

// queryPgx runs a statement on a connection or in a transaction of pgx. The rows are closed before it looks for
// their error, which is where pgx reports what failed on the way.
func queryPgx(ctx context.Context, on interface {
	Query(ctx context.Context, text string, args ...any) (pgx.Rows, error)
}, text string, args []any, read func(scanner) error,
) error {
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if err := read(rows); err != nil {
		return err
	}
	rows.Close()
	return rows.Err()
}

func (t pgxTx) guard(ctx context.Context, f func(Tx) error) error {
	inner, err := t.tx.Begin(ctx)
	if err != nil {
		return err
	}
	err = f(pgxTx{inner})
	ctx, cancel := lastWord(ctx)
	defer cancel()
	if err != nil {
		return undone(err, inner.Rollback(ctx))
	}
	return inner.Commit(ctx)
}

// lastWord is the context that ends a savepoint. The caller's may be what failed; the savepoint must be ended all
// the same, for the caller may go on with its transaction and commit it.
func lastWord(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
}

func undone(err, undo error) error {
	if undo != nil {
		return fmt.Errorf("%w (and the savepoint could not be undone: %w)", err, undo)
	}
	return err
}

type sqlTx struct{ tx *sql.Tx }

func (t sqlTx) query(ctx context.Context, text string, args []any, read func(scanner) error) (err error) {
	plain := make([]any, len(args))
	types := pgtype.NewMap()
	for i, a := range args {
		if plain[i], err = asText(types, a); err != nil {
			return err
		}
	}
	rows, err := t.tx.QueryContext(ctx, text, plain...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	if err := read(rows); err != nil {
		return err
	}
	return rows.Err()
}

func (t sqlTx) guard(ctx context.Context, f func(Tx) error) error {
	if _, err := t.tx.ExecContext(ctx, "SAVEPOINT coppice_insert"); err != nil {
		return err
	}
	err := f(t)
	ctx, cancel := lastWord(ctx)
	defer cancel()
	if err != nil {
		_, undo := t.tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT coppice_insert")
		return undone(err, undo)
	}
	_, err = t.tx.ExecContext(ctx, "RELEASE SAVEPOINT coppice_insert")
	return err
}

// asText writes array parameters as PostgreSQL's array literals, which every driver can send: each
// statement casts its parameters, so their text is all that has to arrive.
func asText(types *pgtype.Map, a any) (any, error) {
	var oid uint32
	switch a := a.(type) {
	case []int64, []*int64:
		oid = pgtype.Int8ArrayOID
	case []int32, []*int32:
		oid = pgtype.Int4ArrayOID
	case []float32, []*float32:
		oid = pgtype.Float4ArrayOID
	case []string, []*string:
		oid = pgtype.TextArrayOID
	case []bool:
		oid = pgtype.BoolArrayOID
	case []pgtype.Timestamptz:
		oid = pgtype.TimestamptzArrayOID
	case int32:
		return int64(a), nil
	default:
		return a, nil
	}
	buf, err := types.Encode(oid, pgtype.TextFormatCode, a, nil)
	if err != nil || buf == nil {
		return nil, err
	}
	return string(buf), nil
}
