package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coppicehq/coppice/internal/pglocal"
	"github.com/coppicehq/coppice/migrations"
	"github.com/coppicehq/coppice/store"
)

// connectTimeout bounds the wait for a server that does not answer, where the URL does not say otherwise.
const connectTimeout = 10 * time.Second

// database is the database that a command works on. The command closes it.
type database struct {
	pool   *pgxpool.Pool
	schema string
	server *pglocal.Server // the private server; nil if the database was named
}

// open returns the database with its schema ready for use. A schema in the private server is migrated, since nobody
// else would; any other that is not of this program's version is refused, with the command that
// changes it.
func (a *App) open(ctx context.Context, g *globals) (*database, *store.Store, error) {
	db, err := a.connect(ctx, g)
	if err != nil {
		return nil, nil, err
	}
	s, err := db.usable(ctx)
	if err != nil {
		db.close(ctx)
		return nil, nil, err
	}
	return db, s, nil
}

func (d *database) usable(ctx context.Context) (*store.Store, error) {
	if d.server != nil {
		if err := d.migrate(ctx); err != nil {
			return nil, err
		}
	}
	if err := migrations.Check(ctx, d.pool, d.schema); err != nil {
		return nil, err
	}
	return store.New(d.pool, d.schema)
}

func (d *database) migrate(ctx context.Context) error {
	m, err := migrations.ForPool(d.pool, d.schema)
	if err != nil {
		return err
	}
	_, err = m.Up(ctx)
	return err
}

// connect returns the database whatever its schema is like.
func (a *App) connect(ctx context.Context, g *globals) (*database, error) {
	db := &database{schema: a.schema(g)}
	if err := migrations.ValidSchema(db.schema); err != nil {
		return nil, &databaseError{err, "give another with --schema or " + schemaEnv}
	}
	url := a.databaseURL(g)
	if url == "" {
		server, err := pglocal.Start(ctx, a.local())
		if err != nil {
			return nil, noServer(fmt.Errorf("start the private PostgreSQL (no --database-url or %s is given): %w", databaseEnv, err))
		}
		db.server, url = server, server.URL()
	}
	var err error
	if db.pool, err = connectPool(ctx, url); err != nil {
		db.close(ctx)
		return nil, err
	}
	return db, nil
}

// noServer is why the private server does not run. Where its folder is the reason, another will do.
func noServer(err error) error {
	var file *fs.PathError
	if errors.As(err, &file) {
		return &databaseError{err, "set " + cacheEnv + " to a folder that you may write to"}
	}
	return &databaseError{err: err}
}

func connectPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, &databaseError{err, "give it as in postgres://user@host:5432/database"}
	}
	conn := config.ConnConfig
	conn.RuntimeParams["application_name"] = cmp.Or(conn.RuntimeParams["application_name"], "coppice")
	conn.ConnectTimeout = cmp.Or(conn.ConnectTimeout, connectTimeout)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, &databaseError{err: err}
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, &databaseError{unreachable{err}, "check --database-url or " + databaseEnv}
	}
	return pool, nil
}

// unreachable is an error of pgx in one line. It names every address that was tried, one a line, and
// each twice where it was tried with TLS and without.
type unreachable struct{ err error }

func (u unreachable) Error() string {
	said := ""
	for line := range strings.Lines(u.err.Error()) {
		switch line = strings.TrimSpace(line); {
		case said == "", strings.HasSuffix(said, ":"):
			said = strings.TrimPrefix(said+" "+line, " ")
		case !strings.Contains(said, line):
			said += "; " + line
		}
	}
	return said
}

func (u unreachable) Unwrap() error { return u.err }

// close lets go of the database. A private server that fails to stop is no failure of the command: the next
// one adopts it.
func (d *database) close(ctx context.Context) {
	if d.pool != nil {
		d.pool.Close()
	}
	if d.server != nil {
		_ = d.server.Close(context.WithoutCancel(ctx)) // after Ctrl-C there is still a server to stop
	}
}

func (a *App) databaseURL(g *globals) string { return cmp.Or(g.databaseURL, a.Env(databaseEnv)) }

func (a *App) schema(g *globals) string {
	return cmp.Or(g.schema, a.Env(schemaEnv), migrations.DefaultSchema)
}

// local says which private server is meant.
func (a *App) local() pglocal.Options {
	return pglocal.Options{
		Folder:   a.Env(cacheEnv),
		Progress: func(step string) { fmt.Fprintln(a.Err, step+" ...") },
	}
}

// where names the database for a question or a message.
func (d *database) where() string {
	if d.server != nil {
		return "the private PostgreSQL"
	}
	c := d.pool.Config().ConnConfig
	return fmt.Sprintf("database %q on %s:%d", c.Database, c.Host, c.Port)
}
