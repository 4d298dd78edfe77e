package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/migrations"
)

func TestMigrateGoesUpAndDown(t *testing.T) {
	t.Parallel()
	s := newShell(t).on(testdb.NewWith(t, testdb.Empty{}))
	before := s.run("migrate", "status", "--json")
	require.Equal(t, exitFailed, before.code)
	status := parseJSON[migrateStatusJSON](t, before.out)
	require.False(t, status.Current)
	require.Empty(t, status.Migrations[0].Applied)
	s.run("migrate", "status").fails(exitFailed, "run `coppice migrate up`")

	up := s.run("migrate", "up")
	up.ok()
	require.Contains(t, up.err, "applied 1, 00001_coppice.sql, in ")
	require.Contains(t, s.run("migrate", "up").err, "nothing to do")
	status = readJSON[migrateStatusJSON](s.run("migrate", "status", "--json"))
	require.True(t, status.Current)
	require.Equal(t, migrations.Latest(), status.Migrations[len(status.Migrations)-1].Version)
	require.Contains(t, s.run("migrate", "status").ok(), "00001_coppice.sql")

	s.run("migrate", "up", "--to", "77").fails(exitUsage, "unknown version 77")
	s.run("migrate", "down", "--to", "77", "--yes").fails(exitUsage, "unknown version 77")
	down := s.run("migrate", "down", "--to", "0", "--yes")
	down.ok()
	require.Contains(t, down.err, "took back 1, ")
	require.Contains(t, s.run("migrate", "down", "--yes").err, "nothing to do")
}

func TestMigrateDownAsksFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.run("migrate", "down")
	got.fails(exitUsage, "add --yes")
	require.Contains(t, got.err, "with all data in what they made:\n")
	w.terminal = true
	for answer, code := range map[string]int{"": exitFailed, "\n": exitFailed, "n\n": exitFailed, "yesterday\n": exitFailed} {
		w.answer = answer
		w.run("migrate", "down").fails(code, "nothing was done")
	}
	require.True(t, readJSON[migrateStatusJSON](w.run("migrate", "status", "--json")).Current)
	w.answer = "y\n"
	w.run("migrate", "down").ok()
}

func TestMigratePrintNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	require.Contains(t, newShell(t).run("migrate", "print", "--schema", "mine").ok(), `CREATE SCHEMA IF NOT EXISTS "mine"`)
}
