package pglocal_test

import (
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/pglocal"
)

func TestTwoProgramsShareOneServerAndTheLastOneStopsIt(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t), Unsafe: true}
	other := startProgram(t, o.Folder)
	pid := other.says(t, "ready")
	s := start(t, o)
	require.Equal(t, pid, itoa(s.Info().PID))
	st := status(t, o)
	require.Equal(t, pglocal.Running, st.State)
	require.Len(t, st.Users, 2)
	require.Positive(t, st.Size)
	require.Equal(t, s.URL(), st.URL)

	other.leave(t)
	require.Len(t, status(t, o).Users, 1)
	execute(t, s.URL(), "SELECT 1")
	require.NoError(t, s.Close(t.Context()))
	require.Equal(t, pglocal.Stopped, status(t, o).State)
	require.NoError(t, s.Close(t.Context()), "closing again does nothing")
}

func TestTheServerOutlivesTheProgramThatStartedIt(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t), Unsafe: true}
	first := startProgram(t, o.Folder)
	first.says(t, "ready")
	s := start(t, o)
	first.leave(t)
	execute(t, s.URL(), "SELECT 1")
	require.NoError(t, s.Close(t.Context()))
	require.Equal(t, pglocal.Stopped, status(t, o).State)
}

func TestTenProgramsThatStartAtOnceShareOneServer(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t), Unsafe: true}
	programs := make([]*program, 10)
	for i := range programs {
		programs[i] = startProgram(t, o.Folder)
	}
	pids := map[string]bool{}
	for _, p := range programs {
		pids[p.says(t, "ready")] = true
	}
	require.Len(t, pids, 1, "they have one server")
	require.Len(t, status(t, o).Users, 10)
	var group sync.WaitGroup
	for _, p := range programs {
		group.Go(func() { p.leave(t) })
	}
	group.Wait()
	require.Equal(t, pglocal.Stopped, status(t, o).State)
}

func TestProgramsThatComeAndGoNeverFindTheServerGone(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t), Unsafe: true}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 5 {
				s, err := pglocal.Start(t.Context(), o)
				if err != nil {
					t.Error(err)
					return
				}
				execute(t, s.URL(), "SELECT 1")
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Equal(t, pglocal.Stopped, status(t, o).State)
}

func TestAServerStartedExplicitlyOutlivesItsUsers(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t)}
	s, err := pglocal.StartDetached(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, s.Close(t.Context()))
	require.NoError(t, start(t, o).Close(t.Context()))
	st := status(t, o)
	require.Equal(t, pglocal.Running, st.State)
	require.Equal(t, s.Info().PID, st.PID)
	require.True(t, st.Kept)
	require.Empty(t, st.Users)

	require.NoError(t, pglocal.Stop(t.Context(), o))
	st = status(t, o)
	require.Equal(t, pglocal.Stopped, st.State)
	require.False(t, st.Kept)
	require.NoError(t, pglocal.Stop(t.Context(), o), "stopping again does nothing")
	require.NoError(t, start(t, o).Close(t.Context()))
	require.Equal(t, pglocal.Stopped, status(t, o).State, "the mark is gone")
}

func TestStopAndResetRefuseWhileProgramsUseTheServer(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: testFolder(t), Unsafe: true}
	require.Equal(t, pglocal.Absent, status(t, o).State)
	require.NoError(t, pglocal.Reset(t.Context(), o), "there is nothing to delete")
	s := start(t, o)
	var inUse *pglocal.InUseError
	require.ErrorAs(t, pglocal.Stop(t.Context(), o), &inUse)
	require.Len(t, inUse.Users, 1)
	require.Equal(t, os.Getpid(), inUse.Users[0].PID)
	require.ErrorContains(t, inUse, "in use by pglocal.test (process "+itoa(os.Getpid())+")")
	require.ErrorAs(t, pglocal.Reset(t.Context(), o), &inUse)
	execute(t, s.URL(), "CREATE TABLE old AS SELECT 1")

	o.Force = true
	require.NoError(t, pglocal.Reset(t.Context(), o))
	require.Equal(t, pglocal.Absent, status(t, o).State)
	require.NoError(t, s.Close(t.Context()))
	require.Equal(t, "f", ask(t, start(t, o).URL(), "SELECT CASE WHEN to_regclass('old') IS NULL THEN 'f' ELSE 't' END"))
}
