package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/testcheck"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/store"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestTheProgramLeavesATableOfTheUsersAlone(t *testing.T) { //nolint:paralleltest // the environment is the process's
	db := testdb.New(t)
	_, err := db.Pool.Exec(t.Context(), `CREATE TABLE albums (name text PRIMARY KEY); INSERT INTO albums VALUES ('mine')`)
	require.NoError(t, err)
	from := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(from, "mine"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(from, "mine", "a.go"), []byte("package a"), 0o600))
	t.Setenv("COPPICE_DATABASE_URL", db.URL)
	t.Setenv("COPPICE_SCHEMA", db.Schema)
	require.NoError(t, run(t.Context(), from))
	st, err := store.New(db.Pool, db.Schema)
	require.NoError(t, err)
	testcheck.AssertInvariants(t, st)
	var name string
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT name FROM albums`).Scan(&name))
	require.Equal(t, "mine", name)
}
