//go:build unix

package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeServer makes a folder of programs that say they are a version of PostgreSQL.
func fakeServer(t *testing.T, folder, version string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(folder, 0o755))
	for _, name := range []string{"initdb", "postgres", "pg_ctl"} {
		script := fmt.Sprintf("#!/bin/sh\necho '%s (PostgreSQL) %s'\n", name, version)
		writeProgram(t, filepath.Join(folder, name), script)
	}
}

func TestTheNewestSupportedVersionIsFoundFirst(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for folder, version := range map[string]string{
		"path":                "14.18",
		"lib/postgresql/13/b": "13.21",
		"lib/postgresql/16/b": "16.9 (Debian 16.9-1)",
		"lib/postgresql/17/b": "17beta2",
		"lib/postgresql/19/b": "19.1",
		"lib/postgresql/8/b":  "17.5",
		"asked":               "15.13",
	} {
		fakeServer(t, filepath.Join(root, folder), version)
	}
	broken := filepath.Join(root, "lib/postgresql/8/b")
	require.NoError(t, os.Remove(filepath.Join(broken, "initdb"))) // only a client package
	require.NoError(t, os.Symlink(filepath.Join(root, "path"), filepath.Join(root, "link")))
	config := filepath.Join(root, "pg_config")
	writeProgram(t, config, "#!/bin/sh\necho "+root+"/asked\n")

	var versions []string
	for _, b := range find(t.Context(), places{
		path:     filepath.Join(root, "link") + ":" + filepath.Join(root, "path") + ":relative:" + filepath.Join(root, "nowhere"),
		pgConfig: config,
		globs:    []string{filepath.Join(root, "lib/postgresql/*/b")},
	}) {
		versions = append(versions, b.version)
	}
	require.Equal(t, []string{"17beta2", "16.9", "15.13", "14.18"}, versions)
}

func TestTheUsualPlacesCoverEverySystem(t *testing.T) {
	t.Parallel()
	described := usualPlaces("/base").described()
	for _, place := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin", "/Applications/Postgres.app/Contents/Versions/*/bin", "/base/binaries/*/bin",
	} {
		require.Contains(t, described, place)
	}
}

func TestWithoutBinariesTheErrorSaysWhereItLookedAndHowToInstall(t *testing.T) {
	t.Parallel()
	offline := errors.New("unable to connect to the network")
	o := Options{
		Folder: t.TempDir(),
		places: &places{globs: []string{"/nowhere/postgresql*/bin"}},
		fetch:  func(context.Context, int, string) (string, error) { return "", offline },
	}
	_, err := Start(t.Context(), o)
	var missing *NoBinariesError
	require.ErrorAs(t, err, &missing)
	require.ErrorIs(t, err, offline)
	for _, part := range []string{
		"version 14 to 18", "initdb, postgres and pg_ctl", "PATH", "pg_config", "/nowhere/postgresql*/bin",
		"unable to connect to the network", "apt install postgresql", "dnf install postgresql-server",
		"brew install postgresql@18",
	} {
		require.ErrorContains(t, err, part)
	}
	require.NotContains(t, err.Error(), "db reset")

	o.Major = 16
	_, err = Start(t.Context(), o)
	require.ErrorContains(t, err, "version 16")
	require.ErrorContains(t, err, "apt install postgresql-16")
}

func TestAClusterWhoseVersionIsGoneIsNeitherReplacedNorForgotten(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	fakeServer(t, filepath.Join(base, "found"), "17.5")
	data := clusterFolder(base, 14, false).data()
	require.NoError(t, os.MkdirAll(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("14\n"), 0o600))
	o := Options{
		Folder: base,
		places: &places{path: filepath.Join(base, "found")},
		fetch:  func(context.Context, int, string) (string, error) { return "", errors.New("offline") },
	}
	_, err := Start(t.Context(), o)
	require.ErrorContains(t, err, data+" was made by PostgreSQL 14, which is not installed any more")
	require.ErrorContains(t, err, "apt install postgresql-14")
	require.ErrorContains(t, err, "coppice db reset")

	require.NoError(t, Reset(t.Context(), o), "the way out needs no binaries")
	folder, err := Path(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(base, "pg17"), folder)
}
