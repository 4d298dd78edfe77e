package pglocal_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/pglocal"
)

func TestStartMakesADurableDatabaseAndTheSecondStartIsFast(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t)}
	begun := time.Now()
	s := start(t, o)
	t.Logf("first start %v", time.Since(begun))
	for query, want := range map[string]string{
		"SHOW server_encoding":           "UTF8",
		"SHOW data_checksums":            "on",
		"SHOW fsync":                     "on",
		"SHOW full_page_writes":          "on",
		"SHOW synchronous_commit":        "on",
		"SHOW max_connections":           "100",
		"SHOW max_wal_size":              "2GB",
		"SELECT current_database()":      "coppice",
		"SELECT current_user":            "coppice",
		"SELECT 'É' ~ '^[[:alpha:]]$'":   "t", // letters are those of Unicode
		"SELECT 'a' COLLATE \"C\" > 'B'": "t",
		"SELECT 'a' > 'B'":               "t", // the order is that of code points
	} {
		require.Equal(t, want, strings.ReplaceAll(ask(t, s.URL(), "SELECT ("+asScalar(query)+")::text"), "true", "t"), query)
	}
	execute(t, s.URL(), "CREATE TABLE kept AS SELECT 1")
	best := time.Hour
	for range 3 { // a machine that is busy with something else slows some of them
		require.NoError(t, s.Close(t.Context()))
		require.Equal(t, pglocal.Stopped, status(t, o).State)
		begun = time.Now()
		s = start(t, o)
		best = min(best, time.Since(begun))
	}
	t.Logf("second start %v", best)
	require.Less(t, best, time.Second)
	execute(t, s.URL(), "SELECT FROM kept")

	begun = time.Now()
	start(t, o)
	t.Logf("start of one that runs %v", time.Since(begun))
}

// asScalar makes SHOW usable inside an expression.
func asScalar(query string) string {
	if name, ok := strings.CutPrefix(query, "SHOW "); ok {
		return "SELECT current_setting('" + name + "')"
	}
	return query
}

func TestAnyFolderWillDo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"my cache", "a+b", "50%20 \"ü\" 木's"} {
		s := start(t, pglocal.Options{Folder: filepath.Join(testFolder(t), name)})
		require.Equal(t, "1", ask(t, s.URL(), "SELECT '1'"), name)
		require.NoError(t, s.Close(t.Context()), name)
	}
}

func TestUnsafeIsAClusterOfItsOwn(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t)}
	durable, err := pglocal.Path(t.Context(), o)
	require.NoError(t, err)
	o.Unsafe = true
	s := start(t, o)
	require.NotEqual(t, durable, s.Info().Folder)
	require.Equal(t, "off", ask(t, s.URL(), "SHOW fsync"))
	require.Equal(t, "off", ask(t, s.URL(), "SHOW synchronous_commit"))
	require.Equal(t, "300", ask(t, s.URL(), "SHOW max_connections"))
}

func TestTheServerListensOnNothingButItsSocket(t *testing.T) {
	t.Parallel()
	s := start(t, pglocal.Options{Folder: testFolder(t), Unsafe: true})
	require.Empty(t, ask(t, s.URL(), "SHOW listen_addresses"))
	require.Empty(t, listeningPorts(t, s.Info().PID))
	info, err := os.Stat(s.Info().Socket)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestTheServerDoesNotRunAsRoot(t *testing.T) {
	t.Parallel()
	s := start(t, pglocal.Options{Folder: testFolder(t), Unsafe: true})
	out, err := exec.Command("ps", "-o", "uid=", "-p", strconv.Itoa(s.Info().PID)).Output()
	require.NoError(t, err)
	require.NotEqual(t, "0", strings.TrimSpace(string(out)))
}

func TestWithoutRoomForASocketTheServerListensOnLoopbackWithAPassword(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(testFolder(t), strings.Repeat("long", 25))
	o := pglocal.Options{Folder: folder, Unsafe: true}
	t.Cleanup(func() { require.NoError(t, pglocal.Stop(context.Background(), o)) })
	s := start(t, o)
	require.Equal(t, []int{s.Info().Port}, listeningPorts(t, s.Info().PID))
	require.Equal(t, "127.0.0.1", ask(t, s.URL(), "SHOW listen_addresses"))
	require.Equal(t, "127.0.0.1/32", ask(t, s.URL(), "SELECT inet_server_addr()::text"))

	info, err := os.Stat(filepath.Join(s.Info().Folder, "password"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	u, err := url.Parse(s.URL())
	require.NoError(t, err)
	u.User = url.UserPassword("coppice", "guessed")
	_, err = pgx.Connect(t.Context(), u.String())
	require.ErrorContains(t, err, "password authentication failed")

	again := start(t, o)
	require.Equal(t, s.URL(), again.URL())
	require.Equal(t, s.URL(), status(t, o).URL)
}

func TestADroppedDatabaseIsMadeAgain(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t), Unsafe: true}
	s := start(t, o)
	execute(t, strings.Replace(s.URL(), "/coppice?", "/postgres?", 1), "DROP DATABASE coppice")
	execute(t, start(t, o).URL(), "SELECT 1")
}

func TestStartGivesUpWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	o := pglocal.Options{Folder: testFolder(t), Unsafe: true, Progress: func(string) { cancel() }}
	_, err := pglocal.Start(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	start(t, pglocal.Options{Folder: o.Folder, Unsafe: true})
}

func TestUnsupportedVersionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, major := range []int{-1, 9, 13, 19} {
		_, err := pglocal.Start(t.Context(), pglocal.Options{Folder: t.TempDir(), Major: major})
		require.ErrorContains(t, err, "is not supported: use 14 to 18")
	}
}
