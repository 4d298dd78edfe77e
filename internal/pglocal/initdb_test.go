//go:build unix

package pglocal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeInitdb is a PostgreSQL 17 whose initdb runs a script.
func fakeInitdb(t *testing.T, script string) Options {
	t.Helper()
	folder, err := os.MkdirTemp("", "pg") //nolint:usetesting // root's server could not enter t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.NoError(t, os.Chmod(folder, 0o755)) // root's server runs as another account
	bin := filepath.Join(folder, "bin")
	fakeServer(t, bin, "17.5")
	writeProgram(t, filepath.Join(bin, "initdb"), "#!/bin/sh\n"+script)
	return Options{Folder: folder, places: &places{path: bin}}
}

func TestAFullDiskIsReportedAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	o := fakeInitdb(t, `echo 'The database cluster will be initialized with locale "C.UTF-8".'
		echo 'initdb: error: could not write: No space left on device' >&2; exit 1`)
	_, err := Start(t.Context(), o)
	require.ErrorContains(t, err, "No space left on device")
	require.NotErrorIs(t, err, errLocale)
	left, err := filepath.Glob(filepath.Join(o.Folder, "pg17", halfMade+"*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWhereALocaleIsMissingTheNextOneIsTried(t *testing.T) {
	t.Parallel()
	o := fakeInitdb(t, `for arg; do
			case $arg in
				--locale=C) plain=yes;;
				--locale-provider=*) builtin=yes;;
				--pgdata=*) data=${arg#--pgdata=};;
			esac
		done
		mkdir "$data"
		if [ "$plain$builtin" != yes ]; then echo 'initdb: error: invalid locale name' >&2; exit 1; fi
		echo 17 > "$data/PG_VERSION"`)
	_, err := Start(t.Context(), o)
	var failed *ServerError // the data is there, and its server is a fake
	require.ErrorAs(t, err, &failed)
	require.ErrorIs(t, err, errEnded)
	require.ErrorContains(t, err, "postgres (PostgreSQL) 17.5", "the end of the log")
	require.Equal(t, 17, clusterFolder(o.Folder, 17, false).major())
}
