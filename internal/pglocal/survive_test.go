//go:build unix

package pglocal_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/pglocal"
)

func TestTheServerOfAKilledProgramIsAdopted(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t), Unsafe: true}
	p := startProgram(t, o.Folder)
	pid := p.says(t, "ready")
	p.kill(t)
	st := status(t, o)
	require.Equal(t, pglocal.Running, st.State)
	require.Empty(t, st.Users, "a killed program does not count")

	s := start(t, o)
	require.Equal(t, pid, itoa(s.Info().PID))
	left, err := os.ReadDir(filepath.Join(s.Info().Folder, "users"))
	require.NoError(t, err)
	require.Len(t, left, 1, "the killed program's file is swept away")
	require.NoError(t, s.Close(t.Context()))
	require.Equal(t, pglocal.Stopped, status(t, o).State)
}

func TestAKilledServerIsStartedAgainWithItsData(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t)}
	s := start(t, o)
	execute(t, s.URL(), "CREATE TABLE kept AS SELECT 1")
	idle, err := pgx.Connect(t.Context(), s.URL())
	require.NoError(t, err)
	defer func() { _ = idle.Close(context.Background()) }()
	kill(t, s.Info().PID)

	again := start(t, o)
	require.NotEqual(t, s.Info().PID, again.Info().PID)
	execute(t, again.URL(), "SELECT FROM kept")
}

func TestAServerWhoseChildStillWorksIsStartedOnceTheChildIsGone(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t)}
	s := start(t, o)
	busy, err := pgx.Connect(t.Context(), s.URL())
	require.NoError(t, err)
	worked := make(chan error, 1)
	go func() { // in a loop that never looks whether the parent is alive
		_, err := busy.Exec(t.Context(), `DO $$ BEGIN
			WHILE (pg_stat_file('release', true)) IS NULL LOOP END LOOP;
		END $$`)
		worked <- err
	}()
	eventually(t, func() bool {
		return ask(t, s.URL(), "SELECT count(*)::text FROM pg_stat_activity WHERE query ^@ 'DO' AND state = 'active'") == "1"
	}, "the child works")
	kill(t, s.Info().PID)

	started := make(chan error, 1)
	go func() {
		again, err := pglocal.Start(t.Context(), o)
		if err == nil {
			err = again.Close(t.Context())
		}
		started <- err
	}()
	eventually(t, func() bool {
		log, err := os.ReadFile(s.Info().Log)
		return err == nil && strings.Contains(string(log), "pre-existing shared memory block")
	}, "the new server sees the child")
	require.NoError(t, os.WriteFile(filepath.Join(s.Info().Data, "release"), nil, 0o644))
	require.NoError(t, <-started)
	<-worked //nolint:errcheck // with its answer or cut off
	_ = busy.Close(t.Context())
}

// kill ends a process as kill -9 does and waits until it is gone.
func kill(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, "the process is gone")
}

func TestAProcessIDThatWasGivenToAnotherProcessIsNotInTheWay(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t)}
	s := start(t, o)
	info := s.Info()
	pidFile := filepath.Join(info.Data, "postmaster.pid")
	text, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	kill(t, info.PID)

	// A process of the account that runs the server: PostgreSQL itself would take it
	// for the server and refuse to start.
	stranger := strangerOf(t, info.Data)
	_, rest, _ := strings.Cut(string(text), "\n")
	require.NoError(t, os.WriteFile(pidFile, []byte(fmt.Sprintf("%d\n%s", stranger, rest)), 0o600))
	lock := filepath.Join(info.Socket, ".s.PGSQL.5432.lock")
	require.NoError(t, os.WriteFile(lock, []byte(fmt.Sprintf("%d\n%s\n", stranger, info.Data)), 0o600))

	require.Equal(t, pglocal.Stopped, status(t, o).State)
	execute(t, start(t, o).URL(), "SELECT 1")
	require.NoError(t, syscall.Kill(stranger, 0), "the stranger still runs")
}

func TestAClusterThatWasHalfMadeIsMadeAgain(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t), Unsafe: true}
	p := startProgram(t, o.Folder)
	p.says(t, "progress")
	folder, err := pglocal.Path(t.Context(), o)
	require.NoError(t, err)
	eventually(t, func() bool {
		made, err := filepath.Glob(filepath.Join(folder, "making-*", "data", "base"))
		return err == nil && len(made) == 1
	}, "initdb is at work")
	p.kill(t)
	require.Equal(t, pglocal.Absent, status(t, o).State)

	execute(t, start(t, o).URL(), "SELECT 1")
}

func TestAnUnsafeClusterThatCannotStartIsMadeAnew(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t), Unsafe: true}
	s := start(t, o)
	require.NoError(t, s.Close(t.Context()))
	require.NoError(t, os.Truncate(filepath.Join(s.Info().Data, "global", "pg_control"), 100))
	execute(t, start(t, o).URL(), "SELECT 1")
}

func TestGarbageInTheFolders(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t)}
	folder, err := pglocal.Path(t.Context(), o)
	require.NoError(t, err)
	for _, name := range []string{
		"data/notes.txt", "making-old/data/PG_VERSION", "users/nobody", "users/1-old",
		"postgresql.conf", "run/.s.PGSQL.5432", "keep",
	} {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("garbage"), 0o644))
	}

	_, err = pglocal.Start(t.Context(), o)
	require.ErrorContains(t, err, "is not empty and holds no PostgreSQL database")
	require.ErrorContains(t, err, "coppice db reset")
	require.FileExists(t, filepath.Join(folder, "data/notes.txt"))
	require.Equal(t, pglocal.Absent, status(t, o).State)

	require.NoError(t, pglocal.Reset(t.Context(), o))
	execute(t, start(t, o).URL(), "SELECT 1")
	require.NoDirExists(t, filepath.Join(folder, "making-old"))
	require.FileExists(t, filepath.Join(folder, "users/nobody"), "what is not ours stays")
}

func TestAServerThatDoesNotComeUpShowsTheEndOfItsLog(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t)}
	s := start(t, o)
	execute(t, s.URL(), "ALTER SYSTEM SET shared_buffers = '8000GB'")
	require.NoError(t, s.Close(t.Context()))
	_, err := pglocal.Start(t.Context(), o)
	var failed *pglocal.ServerError
	require.ErrorAs(t, err, &failed)
	require.ErrorContains(t, err, "could not map anonymous shared memory")
	require.ErrorContains(t, err, s.Info().Log)

	auto := filepath.Join(s.Info().Data, "postgresql.auto.conf")
	require.NoError(t, os.Truncate(auto, 0))
	require.NoError(t, os.Chmod(s.Info().Data, 0o777))
	_, err = pglocal.Start(t.Context(), o)
	require.ErrorContains(t, err, "has invalid permissions")
	require.NoError(t, os.Chmod(s.Info().Data, 0o700))
	start(t, o)
}

func TestALinkIsNotTakenForTheClustersFolder(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t)}
	folder, err := pglocal.Path(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(t.TempDir(), folder))
	_, err = pglocal.Start(t.Context(), o)
	require.ErrorContains(t, err, "is in the way")
	require.NoError(t, os.Remove(folder))
}
