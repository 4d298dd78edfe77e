package testdb

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/internal/pglocal"
)

// URLEnv names the environment variable with the URL of a server to use instead of
// a private one. Its user must be a superuser.
const URLEnv = "COPPICE_TEST_DATABASE_URL"

// server is what the tests of one program have in common.
type server struct {
	once  sync.Once
	err   error
	url   string
	local *pglocal.Server // nil for a server that was there, and before start

	mu sync.Mutex
	// kept says that a database was left for somebody to look at. mu guards it.
	kept bool
}

// shared is the one server of this test program.
//
//nolint:gochecknoglobals // tests get nothing but their own testing.TB to share it through
var shared server

// start makes sure that there is a server. The first caller starts it.
func (s *server) start() error {
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if s.url = os.Getenv(URLEnv); s.url == "" {
			if s.local, s.err = pglocal.Start(ctx, pglocal.Options{Unsafe: true}); s.err != nil {
				return
			}
			s.url = s.local.URL()
		}
		s.err = dropForgotten(ctx, s.url)
	})
	return s.err
}

// release lets go of the server. It stays up while other test programs use it, and
// where a database was kept.
func (s *server) release() error {
	if s.local == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.mu.Lock()
	kept := s.kept
	s.mu.Unlock()
	if kept {
		if err := s.local.Keep(ctx); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "testdb: the server stays up for the databases of failed tests; stop it with kill -INT %d\n", s.local.Info().PID)
	}
	return s.local.Close(ctx)
}

func (s *server) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = true
}

// dropForgotten drops the databases of tests that failed long ago, and templates
// that nobody seems to use any more.
func dropForgotten(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to the server for tests: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	// Reads the catalog of databases; no locks. A database is as old as its PG_VERSION
	// file, which is null for one that was dropped meanwhile.
	rows, err := conn.Query(ctx, `
		SELECT datname, datistemplate
		FROM (SELECT *, (pg_stat_file('base/' || oid || '/PG_VERSION', true)).modification AS made
		      FROM pg_database WHERE datname ^@ 'testdb_tpl_') d
		WHERE made < now() - CASE WHEN datistemplate THEN interval '7 days' ELSE interval '1 day' END
		  AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datid = d.oid)`)
	if err != nil {
		return fmt.Errorf("look for forgotten databases: %w", err)
	}
	type database struct {
		Datname       string
		Datistemplate bool
	}
	old, err := pgx.CollectRows(rows, pgx.RowToStructByPos[database])
	if err != nil {
		return fmt.Errorf("look for forgotten databases: %w", err)
	}
	for _, db := range old {
		name := pgx.Identifier{db.Datname}.Sanitize()
		// Another test program may be doing the same: what fails is tried again tomorrow.
		if db.Datistemplate {
			_, _ = conn.Exec(ctx, "ALTER DATABASE "+name+" IS_TEMPLATE false")
		}
		_, _ = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name)
	}
	return nil
}
