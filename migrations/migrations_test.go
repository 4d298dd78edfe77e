package migrations_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/migrations"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// database creates an empty database that goes away with the test, and returns a
// pool on it, as its owner.
func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return testdb.NewWith(t, testdb.Empty{}).Pool
}

// connect returns a pool that is closed with the test.
func connect(t *testing.T, config *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// migrator returns the migrator of schema in the database of pool.
func migrator(t *testing.T, pool *pgxpool.Pool, schema string) *migrations.Migrator {
	t.Helper()
	m, err := migrations.ForPool(pool, schema)
	require.NoError(t, err)
	return m
}

// exec runs sql, which the test takes to succeed.
func exec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql)
	require.NoError(t, err, sql)
}

// tables returns the names of the tables in schema but for the version table.
func tables(t *testing.T, pool *pgxpool.Pool, schema string) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT c.relname::text FROM pg_class c
		WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
		AND c.relkind IN ('r', 'p', 'v', 'm', 'S') AND c.relname NOT LIKE 'goose\_db\_version%' ORDER BY 1`, schema)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

// catalog describes every relation, column, default, constraint, index and function
// of schema, a line each, to compare one way of making it with another.
func catalog(t *testing.T, pool *pgxpool.Pool, schema string) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
		WITH ns AS (SELECT oid FROM pg_namespace WHERE nspname = $1), line(text) AS (
			SELECT format('column %s.%s %s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
				a.attnotnull, a.attidentity, pg_get_expr(d.adbin, d.adrelid))
			FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
			LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
			WHERE c.relnamespace = (SELECT oid FROM ns)
			UNION ALL
			SELECT format('relation %s %s %s', relname, relkind, reloptions) FROM pg_class
			WHERE relnamespace = (SELECT oid FROM ns)
			UNION ALL
			SELECT format('constraint %s %s', conname, pg_get_constraintdef(oid)) FROM pg_constraint
			WHERE connamespace = (SELECT oid FROM ns)
			UNION ALL
			SELECT indexdef FROM pg_indexes WHERE schemaname = $1
			UNION ALL
			SELECT pg_get_functiondef(oid) FROM pg_proc
			WHERE pronamespace = (SELECT oid FROM ns) AND prokind IN ('f', 'p'))
		SELECT text FROM line ORDER BY 1`, schema)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return lines
}

func TestUpCreatesTheTablesAndDownRemovesThem(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), database(t)
	m := migrator(t, pool, migrations.DefaultSchema)

	applied, err := m.Up(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, applied)
	assert.Equal(t, int64(1), applied[0].Version)
	assert.Equal(t, "00001_coppice.sql", applied[0].Name)
	assert.Equal(t, migrations.Latest(), applied[len(applied)-1].Version)
	assert.NotEmpty(t, tables(t, pool, m.Schema()))
	first := catalog(t, pool, m.Schema())

	again, err := m.Up(ctx)
	require.NoError(t, err)
	assert.Empty(t, again, "the second Up finds nothing to do")

	for range applied {
		taken, err := m.Down(ctx)
		require.NoError(t, err)
		assert.Len(t, taken, 1)
	}
	assert.Empty(t, tables(t, pool, m.Schema()))
	taken, err := m.Down(ctx)
	require.NoError(t, err)
	assert.Empty(t, taken, "Down of nothing is no error")

	_, err = m.Up(ctx)
	require.NoError(t, err)
	assert.Equal(t, first, catalog(t, pool, m.Schema()), "up, down, up ends where up did")

	taken, err = m.DownTo(ctx, 0)
	require.NoError(t, err)
	assert.Len(t, taken, len(applied))
	assert.Empty(t, tables(t, pool, m.Schema()))
}

func TestUpToStopsAtTheVersion(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), database(t)
	m := migrator(t, pool, migrations.DefaultSchema)

	applied, err := m.UpTo(ctx, 1)
	require.NoError(t, err)
	assert.Len(t, applied, 1)

	for _, version := range []int64{-1, 0, migrations.Latest() + 1} {
		_, err = m.UpTo(ctx, version)
		require.ErrorIs(t, err, migrations.ErrUnknownVersion, "version %d", version)
	}
	_, err = m.DownTo(ctx, -1)
	require.ErrorIs(t, err, migrations.ErrUnknownVersion)
}

func TestDownOfAMissingSchemaDoesNothing(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), database(t)
	m := migrator(t, pool, migrations.DefaultSchema)

	taken, err := m.DownTo(ctx, 0)
	require.NoError(t, err)
	assert.Empty(t, taken)
	var missing *migrations.MissingError
	require.ErrorAs(t, m.Check(ctx), &missing, "and creates nothing")
}

func TestAnySchemaNameIsTakenLiterally(t *testing.T) {
	t.Parallel()
	pool := database(t)
	for _, schema := range []string{
		"jobs",
		"Jobs",
		"our jobs",
		`a"b""c`,
		`it's`,
		"x -- y; z",
		`x"; DROP SCHEMA public; --`,
		"$$ $1 ${HOME} $tag$",
		`back\slash\$`,
		"a.b",
		"%s %d",
		"Straße 木",
		"COPPICE_SCHEMA",
		strings.Repeat("木", 21), // 63 bytes
	} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			m := migrator(t, pool, schema)
			_, err := m.Up(ctx)
			require.NoError(t, err)
			assert.NotEmpty(t, tables(t, pool, schema))
			require.NoError(t, m.Check(ctx))
			again, err := m.Up(ctx)
			require.NoError(t, err)
			assert.Empty(t, again)
			_, err = m.DownTo(ctx, 0)
			require.NoError(t, err)
			assert.Empty(t, tables(t, pool, schema))
		})
	}
}

func TestTwoSchemasOfOneDatabaseAreIndependent(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), database(t)
	one, two := migrator(t, pool, "one"), migrator(t, pool, "Two")
	for _, m := range []*migrations.Migrator{one, two} {
		_, err := m.Up(ctx)
		require.NoError(t, err)
	}
	_, err := one.DownTo(ctx, 0)
	require.NoError(t, err)
	assert.Empty(t, tables(t, pool, "one"))
	assert.NotEmpty(t, tables(t, pool, "Two"))
	require.NoError(t, two.Check(ctx))
}

func TestTheEnvironmentPlaysNoPart(t *testing.T) {
	t.Setenv("COPPICE_SCHEMA", "elsewhere")
	ctx, pool := t.Context(), database(t)
	_, err := migrator(t, pool, "here").Up(ctx)
	require.NoError(t, err)
	assert.NotEmpty(t, tables(t, pool, "here"))
	assert.Empty(t, tables(t, pool, "elsewhere"))
}

func TestConcurrentUpsMigrateOnceAndAllSucceed(t *testing.T) {
	t.Parallel()
	pool := database(t)
	const programs = 10
	applied := make([][]migrations.Applied, programs)
	group, ctx := errgroup.WithContext(t.Context())
	for i := range programs {
		m := migrator(t, pool, migrations.DefaultSchema)
		group.Go(func() (err error) {
			if applied[i], err = m.Up(ctx); err != nil {
				return err
			}
			return m.Check(ctx)
		})
	}
	require.NoError(t, group.Wait())

	var total int
	for _, a := range applied {
		total += len(a)
	}
	assert.EqualValues(t, migrations.Latest(), total, "each migration is applied by one of them")
}

func TestUpWorksUnderSerializableIsolation(t *testing.T) {
	t.Parallel()
	pool := database(t)
	name := pgx.Identifier{pool.Config().ConnConfig.Database}.Sanitize()
	exec(t, pool, "ALTER DATABASE "+name+" SET default_transaction_isolation = serializable")

	group, ctx := errgroup.WithContext(t.Context())
	for range 4 {
		m := migrator(t, pool, migrations.DefaultSchema)
		group.Go(func() error {
			_, err := m.Up(ctx)
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.NoError(t, migrations.Check(t.Context(), pool, migrations.DefaultSchema))
}

// holdLock takes the migration lock of schema until release is called.
func holdLock(t *testing.T, pool *pgxpool.Pool, schema string) (release func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", migrations.LockKey(schema))
	require.NoError(t, err)
	return func() {
		t.Helper()
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

func TestUpTakesNoConnectionFromThePool(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), database(t)
	config := pool.Config()
	config.MaxConns = 1
	small := connect(t, config)
	held, err := small.Acquire(ctx)
	require.NoError(t, err)
	defer held.Release()

	_, err = migrator(t, small, migrations.DefaultSchema).Up(ctx)
	require.NoError(t, err)
}

func TestUpConnectsWithThePoolsHooks(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), database(t)
	config := pool.Config()
	right := config.ConnConfig.Database
	config.ConnConfig.Database = "the_hook_knows_better"
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.Database = right
		return nil
	}
	_, err := migrator(t, connect(t, config), migrations.DefaultSchema).Up(ctx)
	require.NoError(t, err)
	assert.NotEmpty(t, tables(t, pool, migrations.DefaultSchema))
}

func TestUpGivesUpWaitingWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), database(t)
	m := migrator(t, pool, migrations.DefaultSchema)
	release := holdLock(t, pool, m.Schema())

	waiting, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err := m.Up(waiting)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Empty(t, tables(t, pool, m.Schema()), "nothing is done without the lock")

	release()
	_, err = m.Up(ctx)
	require.NoError(t, err)
}

func TestUpNeedsNoRightToCreateASchemaThatExists(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	admin, err := pgxpool.ParseConfig(testdb.NewWith(t, testdb.Empty{}).Admin)
	require.NoError(t, err)
	pool := connect(t, admin)
	role := "role_" + strings.ToLower(rand.Text())
	exec(t, pool, "CREATE ROLE "+role+" LOGIN PASSWORD 'oak'")
	t.Cleanup(func() {
		_, err := pool.Exec(context.Background(), fmt.Sprintf("DROP OWNED BY %s; DROP ROLE %s", role, role))
		assert.NoError(t, err)
	})
	config := pool.Config()
	config.ConnConfig.User, config.ConnConfig.Password = role, "oak"
	m := migrator(t, connect(t, config), migrations.DefaultSchema)

	_, err = m.Up(ctx)
	require.ErrorContains(t, err, `CREATE SCHEMA "coppice" AUTHORIZATION`, "the error says what an administrator can do")

	exec(t, pool, "CREATE SCHEMA coppice AUTHORIZATION "+role)
	_, err = m.Up(ctx)
	require.NoError(t, err)
	require.NoError(t, m.Check(ctx))
	_, err = m.DownTo(ctx, 0)
	require.NoError(t, err)
}
