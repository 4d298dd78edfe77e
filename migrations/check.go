package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Querier is what [Check] needs of a connection. *pgxpool.Pool, *pgx.Conn and
// pgx.Tx have it.
type Querier interface {
	// QueryRow is the method of pgx of that name.
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Check reports whether the tables in schema are those that this program needs.
// It is one cheap query, made to be run at every start, and writes nothing.
//
// Errors: *[MissingError], *[OutdatedError] or *[NewerError] if they are not;
// [ErrSchemaName] in the chain if schema is not a usable name; anything else is
// the server's. Inside a transaction, any error leaves it aborted.
func Check(ctx context.Context, db Querier, schema string) error {
	if err := ValidSchema(schema); err != nil {
		return err
	}
	have, err := version(ctx, db, schema)
	if err != nil {
		return err
	}
	switch want := Latest(); {
	case have < want:
		return &OutdatedError{Schema: schema, Have: have, Want: want}
	case have > want:
		return &NewerError{Schema: schema, Have: have, Want: want}
	}
	return nil
}

// version returns the version that schema is at, or *[MissingError].
func version(ctx context.Context, db Querier, schema string) (int64, error) {
	// Reads the whole version table, a row for each migration; no locks. It has no
	// parameters, and the simple protocol leaves no prepared statement behind, which
	// PgBouncer in transaction mode could not keep.
	sql := `SELECT coalesce(max(version_id), 0) FROM ` + versionTable(schema) + ` WHERE is_applied`
	var have int64
	err := db.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol).Scan(&have)
	if undefined(err) {
		return 0, &MissingError{Schema: schema, Want: Latest()}
	}
	if err != nil {
		return 0, fmt.Errorf("read the version of schema %q: %w", schema, err)
	}
	return have, nil
}

// undefined reports whether err says that a table or its schema does not exist.
func undefined(err error) bool {
	var pg *pgconn.PgError
	const undefinedTable, invalidSchemaName = "42P01", "3F000"
	return errors.As(err, &pg) && (pg.Code == undefinedTable || pg.Code == invalidSchemaName)
}
