package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// ErrUnknownVersion is in the chain of the error of [Migrator.UpTo] and
// [Migrator.DownTo] about a version that this program has no migration for.
var ErrUnknownVersion = errors.New("unknown version")

// Migrator moves the tables of one schema of one database between versions. It
// holds no connection between calls, needs no closing, and is safe for concurrent
// use. The zero value is not usable: see [New] and [ForPool].
type Migrator struct {
	schema  string
	config  *pgx.ConnConfig
	options []stdlib.OptionOpenDB
}

// Applied is one migration that a call has applied, or taken back.
type Applied struct {
	// Version is the migration's number, from 1.
	Version int64
	// Name is its file's name.
	Name string
	// Took is how long it ran.
	Took time.Duration
}

// New returns the migrator of schema in the database that url names: a PostgreSQL
// URL or key=value string, as pgx takes it. An empty url means the PG* environment
// variables. Nothing is connected to yet.
//
// Errors: url cannot be parsed; [ErrSchemaName] in the chain if schema is not a
// usable name.
func New(url, schema string) (*Migrator, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse the database URL: %w", err)
	}
	return forConfig(config, schema)
}

// ForPool returns the migrator of schema in the database of pool. It connects with
// the pool's settings and its BeforeConnect and AfterConnect hooks, so credentials
// that change are current, but takes no connection from it.
//
// Errors: [ErrSchemaName] in the chain if schema is not a usable name.
func ForPool(pool *pgxpool.Pool, schema string) (*Migrator, error) {
	config := pool.Config()
	var options []stdlib.OptionOpenDB
	if config.BeforeConnect != nil {
		options = append(options, stdlib.OptionBeforeConnect(config.BeforeConnect))
	}
	if config.AfterConnect != nil {
		options = append(options, stdlib.OptionAfterConnect(config.AfterConnect))
	}
	return forConfig(config.ConnConfig, schema, options...)
}

// forConfig returns the migrator that connects with config, which it changes.
func forConfig(config *pgx.ConnConfig, schema string, options ...stdlib.OptionOpenDB) (*Migrator, error) {
	if err := ValidSchema(schema); err != nil {
		return nil, err
	}
	// No prepared statements: PgBouncer in transaction mode could not keep them.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	// goose records when it applied a migration without a time zone. PgBouncer knows
	// this parameter and lets it through.
	config.RuntimeParams["timezone"] = "UTC"
	return &Migrator{schema: schema, config: config, options: options}, nil
}

// Schema returns the name of the schema, unquoted.
func (m *Migrator) Schema() string { return m.schema }

// Up applies every migration that is still to be applied, in order, and returns
// those; none is not an error. Each is applied in a transaction of its own, unless
// its file says otherwise, and stays applied if a later one fails: the ones
// before it are returned along with the error. The schema is created if it is not
// there.
//
// Errors: *[NewerError], and nothing is changed, if the schema is ahead of the
// program; otherwise the server's.
func (m *Migrator) Up(ctx context.Context) ([]Applied, error) {
	return m.up(ctx, math.MaxInt64)
}

// UpTo is [Migrator.Up] that stops after the given version, which must be one of
// the program's: [ErrUnknownVersion] is in the chain of the error if it is not.
func (m *Migrator) UpTo(ctx context.Context, version int64) ([]Applied, error) {
	if err := known(version); err != nil {
		return nil, err
	}
	return m.up(ctx, version)
}

// up applies what is still to be applied up to and including the version last.
func (m *Migrator) up(ctx context.Context, last int64) ([]Applied, error) {
	// Most programs that start find everything done, and need no lock to see it.
	if m.Check(ctx) == nil {
		return nil, nil
	}
	var results []*goose.MigrationResult
	err := m.locked(ctx, func(db *sql.DB, provider *goose.Provider) (err error) {
		if err := ensureSchema(ctx, db, m.schema); err != nil {
			return err
		}
		if err := m.refuseNewer(ctx, provider); err != nil {
			return err
		}
		results, err = provider.UpTo(ctx, last)
		return err
	})
	return applied(results, err), m.wrap("migrate up", err)
}

// Down takes back the migration that was applied last, with all the data in what
// it created, and returns it; nothing to take back is not an error. The schema and
// its version table stay.
//
// Errors: *[NewerError], and nothing is changed, if the schema is ahead of the
// program, which does not know then what to take back; otherwise the server's.
func (m *Migrator) Down(ctx context.Context) ([]Applied, error) {
	return m.down(ctx, func(provider *goose.Provider) ([]*goose.MigrationResult, error) {
		result, err := provider.Down(ctx)
		switch {
		case errors.Is(err, goose.ErrNoNextVersion):
			return nil, nil
		case err != nil:
			return nil, err
		}
		return []*goose.MigrationResult{result}, nil
	})
}

// DownTo takes back every migration after the given version, newest first, with
// all the data in what they created, and returns those. Zero takes back all. Any
// other version must be one of the program's: [ErrUnknownVersion] is in the chain
// of the error if it is not. Otherwise it is like [Migrator.Down].
func (m *Migrator) DownTo(ctx context.Context, version int64) ([]Applied, error) {
	if version != 0 {
		if err := known(version); err != nil {
			return nil, err
		}
	}
	return m.down(ctx, func(provider *goose.Provider) ([]*goose.MigrationResult, error) {
		return provider.DownTo(ctx, version)
	})
}

// down runs back under the lock, if there is anything that could be taken back.
func (m *Migrator) down(
	ctx context.Context, back func(*goose.Provider) ([]*goose.MigrationResult, error),
) ([]Applied, error) {
	var results []*goose.MigrationResult
	err := m.locked(ctx, func(db *sql.DB, provider *goose.Provider) error {
		// goose would create the version table, or fail where there is no schema.
		exists, err := m.exists(ctx, db)
		if err != nil || !exists {
			return err
		}
		if err := m.refuseNewer(ctx, provider); err != nil {
			return err
		}
		results, err = back(provider)
		return err
	})
	return applied(results, err), m.wrap("migrate down", err)
}

// locked calls do with connections to the database and a goose provider on them,
// while no other migration of the schema is under way.
func (m *Migrator) locked(ctx context.Context, do func(*sql.DB, *goose.Provider) error) error {
	return m.connected(func(db *sql.DB, provider *goose.Provider) error {
		release, err := lock(ctx, db, m.schema)
		if err != nil {
			return err
		}
		defer release()
		return do(db, provider)
	})
}

// connected calls do with connections to the database and a goose provider on
// them, and closes them.
func (m *Migrator) connected(do func(*sql.DB, *goose.Provider) error) error {
	db := stdlib.OpenDB(*m.config.Copy(), m.options...)
	defer db.Close() //nolint:errcheck // The work is committed or not by now, and closing cannot change it.
	store, err := newVersions(m.schema)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectCustom, db, rendered{m.schema},
		goose.WithStore(store),
		// Migrations that the program registered with goose for its own tables are not ours.
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	return do(db, provider)
}

// exists reports whether the schema has a version table.
func (m *Migrator) exists(ctx context.Context, db *sql.DB) (bool, error) {
	store, err := newVersions(m.schema)
	if err != nil {
		return false, err
	}
	return store.TableExists(ctx, db)
}

// refuseNewer returns *[NewerError] if the schema is ahead of the program.
func (m *Migrator) refuseNewer(ctx context.Context, provider *goose.Provider) error {
	have, err := provider.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the version: %w", err)
	}
	if want := Latest(); have > want {
		return &NewerError{Schema: m.schema, Have: have, Want: want}
	}
	return nil
}

// wrap adds the operation and the schema to err, except to errors that name them.
func (m *Migrator) wrap(operation string, err error) error {
	var newer *NewerError
	if err == nil || errors.As(err, &newer) {
		return err
	}
	return fmt.Errorf("%s schema %q: %w", operation, m.schema, err)
}

// applied returns what was done, from the results of a call that succeeded or from
// the error of one that stopped half-way.
func applied(results []*goose.MigrationResult, err error) []Applied {
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		results = partial.Applied
	}
	done := make([]Applied, 0, len(results))
	for _, r := range results {
		done = append(done, Applied{Version: r.Source.Version, Name: path.Base(r.Source.Path), Took: r.Duration})
	}
	return done
}

// known returns [ErrUnknownVersion] if the program has no migration of that version.
func known(version int64) error {
	if !slices.ContainsFunc(sources(), func(s source) bool { return s.version == version }) {
		return fmt.Errorf("%w %d: the newest is %d", ErrUnknownVersion, version, Latest())
	}
	return nil
}
