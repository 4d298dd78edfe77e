package migrations

import (
	"context"

	"github.com/pressly/goose/v3/database"
)

// versions is goose's own store for PostgreSQL, with a table name that is quoted
// and qualified with the schema. goose looks for a table by comparing names with
// pg_tables, which a quoted name never equals, and would try to create it again.
type versions struct {
	database.Store
}

// newVersions returns the store of the versions applied to schema.
func newVersions(schema string) (versions, error) {
	store, err := database.NewStore(database.DialectPostgres, versionTable(schema))
	return versions{store}, err
}

// TableExists reports whether the version table is there. goose asks for it
// before anything else.
func (v versions) TableExists(ctx context.Context, db database.DBTxConn) (exists bool, err error) {
	// Reads the catalog by its (relname, relnamespace) index; no locks.
	err = db.QueryRowContext(ctx, `SELECT to_regclass($1) IS NOT NULL`, v.Tablename()).Scan(&exists)
	return exists, err
}
