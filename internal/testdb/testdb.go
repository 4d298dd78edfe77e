package testdb

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // pgtestdb connects through database/sql
	"github.com/peterldowns/pgtestdb"
)

// poolSize is MaxConns of a test's pool: enough for tests of concurrency, and few
// enough for the pools of many tests on one server.
const poolSize = 8

// DB is the database of one test.
type DB struct {
	Pool   *pgxpool.Pool // at most 8 connections; closed when the test ends
	URL    string        // as the owner of the database, who is no superuser
	Admin  string        // the same database as a superuser, for tests of roles and rights
	Name   string        // of the database
	Schema string        // that the tables of Coppice are in

	log logPosition
}

// New returns a new database with the tables of Coppice. It is dropped when the
// test has passed, and kept, with its URL in the test's output, when it has failed.
// Connections that the test leaves open fail it.
func New(t testing.TB) *DB {
	t.Helper()
	return NewWith(t, tables{})
}

// NewWith is New for a database that m has filled.
func NewWith(t testing.TB, m Migrator) *DB {
	t.Helper()
	return open(t, m, t.Name())
}

// tb is what open needs of a testing.TB, which only package testing can make.
type tb interface {
	pgtestdb.TB
	Errorf(format string, args ...any)
}

// open makes the database and its pool; user names the pool's connections to the server.
func open(t tb, m Migrator, user string) *DB {
	t.Helper()
	if err := shared.start(); err != nil {
		t.Fatalf("start the server for tests: %v", err)
	}
	admin, err := adminConfig(shared.url)
	if err != nil {
		t.Fatalf("read the URL of the server for tests: %v", err)
	}
	db := &DB{Schema: Schema, log: shared.logPosition()}
	made := pgtestdb.Custom(t, admin, adapter{m})
	db.URL, db.Name = made.URL(), made.Database
	admin.Database = made.Database
	db.Admin = admin.URL()
	// Runs before pgtestdb's own, which drops the database.
	t.Cleanup(func() {
		if t.Failed() {
			shared.keep()
			t.Logf("the database is kept: psql '%s'", db.URL)
		}
	})
	config, err := pgxpool.ParseConfig(db.URL)
	if err != nil {
		t.Fatalf("read the URL of the test's database: %v", err)
	}
	config.MaxConns = poolSize
	config.ConnConfig.RuntimeParams["application_name"] = user
	if db.Pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		t.Fatalf("open a pool on the test's database: %v", err)
	}
	t.Cleanup(func() { closePool(t, db.Pool) })
	return db
}

// closePool closes the pool, and fails a test that has not returned a connection
// rather than wait for it for ever.
func closePool(t tb, pool *pgxpool.Pool) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Errorf("the test has not returned %d connections to its pool", pool.Stat().AcquiredConns())
	}
}

// adminConfig turns the URL of a server into what pgtestdb builds URLs from. The
// host goes into the options, since a unix socket's folder cannot stand in its place.
func adminConfig(server string) (pgtestdb.Config, error) {
	config, err := pgx.ParseConfig(server)
	if err != nil {
		return pgtestdb.Config{}, err
	}
	options := url.Values{}
	if u, err := url.Parse(server); err == nil {
		options = u.Query() // sslmode and the like
	}
	options.Set("host", config.Host)
	options.Set("port", fmt.Sprint(config.Port))
	return pgtestdb.Config{
		DriverName: "pgx",
		User:       url.User(config.User).String(),
		Password:   url.User(config.Password).String(),
		Database:   url.PathEscape(config.Database),
		Options:    strings.ReplaceAll(options.Encode(), "+", "%20"), // pgx reads no plus as a space
	}, nil
}

// adapter makes a Migrator one of pgtestdb.
type adapter struct{ Migrator }

// Migrate leaves the connection alone that pgtestdb has open.
func (a adapter) Migrate(ctx context.Context, _ *sql.DB, config pgtestdb.Config) error {
	return a.Migrator.Migrate(ctx, config.URL())
}
