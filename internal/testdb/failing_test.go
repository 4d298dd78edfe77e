package testdb_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/pglocal"
	"github.com/coppicehq/coppice/internal/testdb"
)

// failingEnv says which way TestFailing fails, in a test program of its own.
const failingEnv = "TESTDB_FAILING"

// TestFailing fails when another test asks for it, and is no test of its own.
func TestFailing(t *testing.T) {
	switch os.Getenv(failingEnv) {
	case "assertion":
		testdb.NewWith(t, testdb.Empty{})
		t.Error("the assertion failed")
	case "migrator":
		testdb.NewWith(t, broken{})
	case "connection":
		db := testdb.NewWith(t, testdb.Empty{})
		_, err := pgx.Connect(t.Context(), db.URL)
		require.NoError(t, err)
	case "goroutine":
		testdb.NewWith(t, testdb.Empty{})
		go func() { <-make(chan struct{}) }()
	case "deadlock":
		db := testdb.NewWith(t, testdb.Empty{})
		deadlock(t, db)
		db.AssertNoDeadlocks(t)
	}
}

type broken struct{}

func (broken) Hash() (string, error)                 { return "broken", nil }
func (broken) Migrate(context.Context, string) error { return errors.New("no such migration") }

// runFailing runs TestFailing in a program and on a server of its own, and returns
// what it said and the options of its server.
func runFailing(t *testing.T, way string) (string, pglocal.Options) {
	t.Helper()
	folder := privateFolder(t)
	o := pglocal.Options{Folder: folder, Unsafe: true, Force: true}
	t.Cleanup(func() { require.NoError(t, pglocal.Stop(context.Background(), o)) })
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFailing$")
	cmd.Env = append(os.Environ(), failingEnv+"="+way, pglocal.CacheDirEnv+"="+folder, testdb.URLEnv+"=")
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "it should have failed:\n%s", out)
	return string(out), o
}

// privateFolder returns a folder for a server of the test's own.
func privateFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "pg") //nolint:usetesting // short, to leave room for the socket's name
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.NoError(t, os.Chmod(folder, 0o755)) // root's server runs as another account
	return folder
}

func TestAFailedTestKeepsItsDatabaseAndTheServer(t *testing.T) {
	t.Parallel()
	said, o := runFailing(t, "assertion")
	url := regexp.MustCompile(`psql '(.*)'`).FindStringSubmatch(said)
	require.NotNil(t, url, said)
	if psql, err := exec.LookPath("psql"); err == nil { // the URL is for people to paste
		out, err := exec.CommandContext(t.Context(), psql, url[1], "-c", "SELECT 1").CombinedOutput()
		require.NoError(t, err, string(out))
	}
	conn, err := pgx.Connect(t.Context(), url[1])
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	require.Contains(t, said, "the server stays up")
	st, err := pglocal.GetStatus(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, pglocal.Running, st.State)
}

func TestEveryWayToFailIsReported(t *testing.T) {
	t.Parallel()
	for way, want := range map[string]string{
		"migrator":   "no such migration",
		"connection": "open connections",
		"goroutine":  "found unexpected goroutines",
		"deadlock":   "the server found a deadlock",
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			said, _ := runFailing(t, way)
			require.Contains(t, said, want)
		})
	}
}
