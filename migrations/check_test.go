package migrations_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/migrations"
)

func TestCheckSaysWhatToDo(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), database(t)
	const schema = migrations.DefaultSchema
	m := migrator(t, pool, schema)
	want := migrations.Latest()

	var missing *migrations.MissingError
	require.ErrorAs(t, m.Check(ctx), &missing)
	assert.Equal(t, migrations.MissingError{Schema: schema, Want: want}, *missing)
	assert.ErrorContains(t, missing, "run `coppice migrate up`")

	_, err := m.Up(ctx)
	require.NoError(t, err)
	require.NoError(t, m.Check(ctx))
	require.NoError(t, migrations.Check(ctx, pool, schema))

	_, err = m.DownTo(ctx, 0)
	require.NoError(t, err)
	var outdated *migrations.OutdatedError
	require.ErrorAs(t, m.Check(ctx), &outdated)
	assert.Equal(t, migrations.OutdatedError{Schema: schema, Have: 0, Want: want}, *outdated)
	assert.ErrorContains(t, outdated, "run `coppice migrate up`")

	_, err = m.Up(ctx)
	require.NoError(t, err)
	exec(t, pool, `INSERT INTO coppice.goose_db_version (version_id, is_applied) VALUES (9999, true)`)
	var newer *migrations.NewerError
	for name, err := range map[string]error{
		"Check": m.Check(ctx), "Up": second(m.Up(ctx)), "Down": second(m.Down(ctx)), "DownTo": second(m.DownTo(ctx, 0)),
	} {
		require.ErrorAs(t, err, &newer, name)
		assert.Equal(t, migrations.NewerError{Schema: schema, Have: 9999, Want: want}, *newer, name)
		assert.ErrorContains(t, newer, "upgrade the program")
	}
	assert.NotEmpty(t, tables(t, pool, schema), "nothing is taken down")
}

// second returns the error of a pair.
func second[T any](_ T, err error) error { return err }

func TestCheckLeavesNoPreparedStatement(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), database(t)
	_, err := migrator(t, pool, migrations.DefaultSchema).Up(ctx)
	require.NoError(t, err)
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	require.NoError(t, err)
	defer conn.Close(ctx) //nolint:errcheck // The database is dropped next.

	require.NoError(t, migrations.Check(ctx, conn, migrations.DefaultSchema))
	var prepared int
	require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM pg_prepared_statements`, pgx.QueryExecModeExec).Scan(&prepared))
	assert.Zero(t, prepared)
}

func TestStatusListsEveryMigration(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), database(t)
	m := migrator(t, pool, "Status of")

	before, err := m.Status(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, before)
	for _, s := range before {
		assert.True(t, s.Pending(), s.Name)
	}
	var missing *migrations.MissingError
	require.ErrorAs(t, m.Check(ctx), &missing, "Status creates nothing")

	_, err = m.Up(ctx)
	require.NoError(t, err)
	after, err := m.Status(ctx)
	require.NoError(t, err)
	require.Len(t, after, len(before))
	for i, s := range after {
		assert.Equal(t, before[i].Version, s.Version)
		assert.Equal(t, before[i].Name, s.Name)
		assert.WithinDuration(t, time.Now(), s.AppliedAt, time.Minute)
	}
}

func TestPrintMakesTheSameTablesAsUp(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{migrations.DefaultSchema, `our "job's" -- $$`} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			ctx, printed, migrated := t.Context(), database(t), database(t)
			var sql bytes.Buffer
			require.NoError(t, migrations.Print(&sql, schema))
			exec(t, printed, sql.String())
			_, err := migrator(t, migrated, schema).Up(ctx)
			require.NoError(t, err)

			assert.Equal(t, catalog(t, migrated, schema), catalog(t, printed, schema))
			m := migrator(t, printed, schema)
			require.NoError(t, m.Check(ctx))
			applied, err := m.Up(ctx)
			require.NoError(t, err)
			assert.Empty(t, applied)
			_, err = m.DownTo(ctx, 0)
			require.NoError(t, err)
		})
	}
}

func TestTheAdviceNamesTheSchema(t *testing.T) {
	t.Parallel()
	for schema, command := range map[string]string{
		migrations.DefaultSchema: "run `coppice migrate up`",
		"jobs":                   "run `coppice migrate up --schema jobs`",
		`My "odd" schema`:        "run `coppice migrate up --schema 'My \"odd\" schema'`",
		"it's":                   "run `coppice migrate up --schema 'it'\\''s'`",
	} {
		require.ErrorContains(t, &migrations.MissingError{Schema: schema, Want: 1}, command)
		require.ErrorContains(t, &migrations.OutdatedError{Schema: schema, Want: 1}, command)
	}
}
