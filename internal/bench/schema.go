package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coppicehq/coppice/migrations"
)

// Schema is where a bench keeps its tables, for as long as it takes.
const Schema = "coppice_bench"

// mark is the comment on a schema of ours: no other is ever dropped.
const mark = "made by coppice bench, which drops it when it ends"

// dropTime bounds the drop, which is wanted after Ctrl-C too.
const dropTime = 30 * time.Second

// Errors of [WithSchema] that a person can do something about.
var (
	ErrBusy    = errors.New("another bench runs in this database: wait for it to end")
	ErrLeft    = errors.New("the schema " + Schema + " is left in the database: the next bench drops it")
	ErrForeign = errors.New("the schema " + Schema + " was not made by a bench, which would drop it: rename it or use another database")
)

// lockSQL takes the advisory lock that says a bench runs; it is over with its connection. No rows.
const lockSQL = `SELECT pg_try_advisory_lock(hashtextextended($1, 0))`

// unlockSQL gives that lock back. No rows.
const unlockSQL = `SELECT pg_advisory_unlock(hashtextextended($1, 0))`

// markedSQL reads the catalogue: no row if there is no such schema. No locks.
const markedSQL = `SELECT coalesce(obj_description(oid, 'pg_namespace'), '') FROM pg_namespace WHERE nspname = $1`

// WithSchema makes [Schema] with the tables of this program's version, calls do, and drops it again, whatever do
// returns and also if ctx has ended. What a killed bench left behind is dropped first. Errors: [ErrBusy],
// [ErrForeign], do's, the database's, and with any of these [ErrLeft] in the chain.
func WithSchema(ctx context.Context, pool *pgxpool.Pool, do func(context.Context) error) (err error) {
	// A connection of its own: the lock is held as long as it is.
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the lock ends with the connection either way
	var ours bool
	if err := conn.QueryRow(ctx, lockSQL, Schema).Scan(&ours); err != nil {
		return fmt.Errorf("lock the schema %s: %w", Schema, err)
	}
	if !ours {
		return ErrBusy
	}
	// The server notices the end of a connection in its own time: a bench that starts right after this one would
	// find it running.
	defer release(ctx, conn)
	var comment string
	err = conn.QueryRow(ctx, markedSQL, Schema).Scan(&comment)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
	case err != nil:
		return fmt.Errorf("look for the schema %s: %w", Schema, err)
	case comment != mark:
		return ErrForeign
	default:
		if err := drop(ctx, conn); err != nil {
			return err
		}
	}
	defer func() {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
		defer cancel()
		if failed := drop(after, conn); failed != nil {
			err = errors.Join(err, fmt.Errorf("%w: %w", ErrLeft, failed))
		}
	}()
	// In one transaction, so that it never stands without its mark.
	_, err = conn.Exec(ctx, fmt.Sprintf("BEGIN; CREATE SCHEMA %s; COMMENT ON SCHEMA %[1]s IS '%s'; COMMIT", Schema, mark),
		pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return fmt.Errorf("make the schema %s: %w", Schema, err)
	}
	m, err := migrations.ForPool(pool, Schema)
	if err != nil {
		return err
	}
	if _, err := m.Up(ctx); err != nil {
		return err
	}
	return do(ctx)
}

// release gives the lock back. Where that fails, the end of the connection does it.
func release(ctx context.Context, conn *pgx.Conn) {
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	_, _ = conn.Exec(after, unlockSQL, Schema)
}

func drop(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+Schema+" CASCADE"); err != nil {
		return fmt.Errorf("drop the schema %s: %w", Schema, err)
	}
	return nil
}

func quote(schema string) string { return pgx.Identifier{schema}.Sanitize() }
