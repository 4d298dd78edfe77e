package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// How long a migration that finds another under way waits before it looks again:
// the first time, and at most.
const (
	firstWait = 10 * time.Millisecond
	longWait  = 500 * time.Millisecond
)

// lock waits until no other migration of schema is under way in the database of
// db, and keeps the others waiting until release is called or the connection is
// lost. ctx bounds the wait and the hold.
//
// It looks now and then, and holds nothing in between. If it queued for the lock
// instead, enough programs starting at once would fill a PgBouncer's pool with
// transactions that wait for the one whose work then finds no server connection.
func lock(ctx context.Context, db *sql.DB, schema string) (release func(), err error) {
	for wait := firstWait; ; wait = min(2*wait, longWait) {
		release, err := tryLock(ctx, db, schema)
		if err != nil {
			return nil, fmt.Errorf("take the migration lock: %w", err)
		}
		if release != nil {
			return release, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another migration to end: %w", context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// tryLock takes the lock if it is free, and returns nil if it is not.
//
// The lock is held by a transaction on a connection of its own, which does nothing
// else. A session's lock would be lost or leak where PgBouncer gives each
// transaction another session. The transaction is read committed whatever the
// server's default is: with no snapshot between its statements, it does not hold
// up a CREATE INDEX CONCURRENTLY that it protects.
func tryLock(ctx context.Context, db *sql.DB, schema string) (release func(), err error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	// Nothing can be done about a rollback that fails: the connection is gone, and
	// the lock with it.
	rollback := func() { _ = tx.Rollback() }
	var taken bool
	// Idling is this transaction's whole purpose, so a limit on it does not apply.
	const take = `SELECT pg_try_advisory_xact_lock($1)
		FROM set_config('idle_in_transaction_session_timeout', '0', true)`
	if err := tx.QueryRowContext(ctx, take, lockKey(schema)).Scan(&taken); err != nil {
		rollback()
		return nil, err
	}
	if !taken {
		rollback()
		return nil, nil
	}
	return rollback, nil
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
