package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5/pgconn"
)

// lock waits until no other migration of schema is under way in the database of
// db, and keeps the others waiting until release is called or the connection is
// lost. ctx bounds the wait and the hold.
//
// The lock is held by a transaction on a connection of its own, which does nothing
// else. A session's lock would be lost or leak where PgBouncer gives each
// transaction another session. The transaction is read committed whatever the
// server's default is: with no snapshot between its statements, it does not hold
// up a CREATE INDEX CONCURRENTLY that it protects.
func lock(ctx context.Context, db *sql.DB, schema string) (release func(), err error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, fmt.Errorf("connect for the migration lock: %w", err)
	}
	// Nothing can be done about a rollback that fails: the connection is gone, and
	// the lock with it.
	release = func() { _ = tx.Rollback() }
	// Waiting and idling are this transaction's whole purpose, so time limits that
	// were set with other work in mind do not apply to it.
	const noLimits = `SET LOCAL statement_timeout = 0;
		SET LOCAL lock_timeout = 0;
		SET LOCAL idle_in_transaction_session_timeout = 0`
	if _, err := tx.ExecContext(ctx, noLimits); err != nil {
		release()
		return nil, fmt.Errorf("lift the time limits of the migration lock: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, lockKey(schema)); err != nil {
		release()
		return nil, fmt.Errorf("wait for the migration lock: %w", err)
	}
	return release, nil
}

// lockKey returns the advisory lock of the migrations of schema. Advisory locks
// are a database's own, so its name need not be part of it.
func lockKey(schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("coppice migrations of schema " + schema))
	return int64(h.Sum64()) // #nosec G115 -- all 64 bits are wanted, the sign means nothing.
}

// ensureSchema creates schema if it is not there. It looks first: CREATE SCHEMA IF
// NOT EXISTS asks for the right to create one even where there is nothing to do.
func ensureSchema(ctx context.Context, db *sql.DB, schema string) error {
	var exists bool
	// Reads pg_namespace by its name index; no locks.
	const find = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)`
	if err := db.QueryRowContext(ctx, find, schema).Scan(&exists); err != nil {
		return fmt.Errorf("look for schema %q: %w", schema, err)
	}
	if exists {
		return nil
	}
	_, err := db.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS `+quote(schema))
	var pg *pgconn.PgError
	const insufficientPrivilege = "42501"
	if errors.As(err, &pg) && pg.Code == insufficientPrivilege {
		return fmt.Errorf("create schema %q: %w; ask an administrator for: CREATE SCHEMA %s AUTHORIZATION <this role>",
			schema, err, quote(schema))
	}
	if err != nil {
		return fmt.Errorf("create schema %q: %w", schema, err)
	}
	return nil
}
