package cli

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/pglocal"
)

func TestThePrivateServerIsStartedUsedAndDeleted(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, path := range []string{folder + "/..", folder} { // root's server runs as another account
		require.NoError(t, os.Chmod(path, 0o755))
	}
	s := newShell(t)
	s.env = map[string]string{cacheEnv: folder}
	t.Cleanup(func() {
		require.NoError(t, pglocal.Stop(context.Background(), pglocal.Options{Folder: folder, Force: true}))
	})

	path := strings.TrimSpace(s.run("db", "path").ok())
	require.True(t, strings.HasPrefix(path, folder))
	require.Equal(t, pglocal.Absent, readJSON[dbStatusJSON](s.run("db", "status", "--json")).State)
	require.Contains(t, s.run("db", "status").ok(), "no database")
	require.Contains(t, s.run("db", "reset").err, "there is no private database")

	// A command by itself: the server is there for as long as it takes, and the schema is made.
	require.Contains(t, s.run("doctor").ok(), "healthy")
	require.Equal(t, pglocal.Stopped, readJSON[dbStatusJSON](s.run("db", "status", "--json")).State)

	url := strings.TrimSpace(s.run("db", "start").ok())
	status := readJSON[dbStatusJSON](s.run("db", "status", "--json"))
	require.Equal(t, pglocal.Running, status.State)
	require.Equal(t, url, status.URL)
	require.True(t, status.Kept)
	require.Contains(t, s.run("db", "status").ok(), url)
	s.run("tree", "list", "--database-url", url).ok() // migrated, so that others can use it

	s.run("db", "reset").fails(exitUsage, "add --yes")
	s.run("db", "stop").ok()
	reset := s.run("db", "reset", "--yes")
	reset.ok()
	require.Contains(t, reset.err, "with all the jobs in it")
	require.Equal(t, pglocal.Absent, readJSON[dbStatusJSON](s.run("db", "status", "--json")).State)
}
