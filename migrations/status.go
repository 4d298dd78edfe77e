package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// Status is where one of the program's migrations stands in a schema.
type Status struct {
	// Version is the migration's number, from 1.
	Version int64
	// Name is its file's name.
	Name string
	// AppliedAt is when it was applied, by the database's clock; zero if it was not.
	// It is off by the session's UTC offset where psql or plain goose applied it,
	// since goose keeps no time zone.
	AppliedAt time.Time
}

// Pending reports whether the migration is still to be applied.
func (s Status) Pending() bool { return s.AppliedAt.IsZero() }

// Status returns every migration of the program, in ascending order of version,
// and whether it is applied. It writes nothing, takes no lock, and reports all as
// pending where there is no schema. Versions that only a newer program knows are
// not listed: [Check] finds those.
func (m *Migrator) Status(ctx context.Context) ([]Status, error) {
	all := make([]Status, 0, len(sources()))
	for _, s := range sources() {
		all = append(all, Status{Version: s.version, Name: s.name})
	}
	err := m.connected(func(db *sql.DB, provider *goose.Provider) error {
		// goose would create the version table.
		exists, err := m.exists(ctx, db)
		if err != nil || !exists {
			return err
		}
		found, err := provider.Status(ctx)
		if err != nil {
			return err
		}
		for i, s := range found { // The same files, in the same order.
			all[i].AppliedAt = s.AppliedAt
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("status of schema %q: %w", m.schema, err)
	}
	return all, nil
}

// Check is the function [Check] on a connection of its own.
func (m *Migrator) Check(ctx context.Context) error {
	return m.connected(func(db *sql.DB, _ *goose.Provider) error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return fmt.Errorf("check schema %q: %w", m.schema, err)
		}
		defer conn.Close() //nolint:errcheck // The whole db is closed next.
		return conn.Raw(func(driver any) error {
			return Check(ctx, driver.(*stdlib.Conn).Conn(), m.schema)
		})
	})
}
