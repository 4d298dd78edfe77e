package cleanupjournal

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/internal/testcheck"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/tree"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// shelf is a library on a database of its own.
type shelf struct {
	*Library
	*engine.Client
	t  *testing.T
	db *testdb.DB
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	db := testdb.New(t)
	client, err := engine.NewClient(db.Pool, engine.ClientConfig{Schema: db.Schema})
	require.NoError(t, err)
	s := &shelf{Library: &Library{Folder: t.TempDir(), Pool: db.Pool}, Client: client, t: t, db: db}
	require.NoError(t, s.Prepare(t.Context()))
	t.Cleanup(func() { testcheck.AssertInvariants(t, client.Store()) })
	return s
}

func (s *shelf) add(album string) {
	s.t.Helper()
	require.NoError(s.t, s.Add(s.t.Context(), album, map[string][]byte{"a.png": []byte("a"), "b.png": []byte("b"), "small/c.png": []byte("c")}))
}

func (s *shelf) has(path string) bool {
	_, err := os.Lstat(filepath.Join(s.Folder, path))
	return err == nil
}

func (s *shelf) work() {
	s.t.Helper()
	reg := engine.NewRegistry()
	require.NoError(s.t, s.Register(reg))
	fast := tree.Backoff{Base: 20 * time.Millisecond, Factor: 1.5, Cap: time.Second}
	w, err := engine.NewWorker(s.Client, reg, engine.WorkerConfig{Backoff: &fast, PollInterval: 10 * time.Millisecond})
	require.NoError(s.t, err)
	require.NoError(s.t, w.Start(s.t.Context()))
	s.t.Cleanup(func() { require.NoError(s.t, w.Stop(context.Background())) })
}

func TestARemovedAlbumsFilesGo(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.add("summer")
	s.add("winter")
	id, err := s.Remove(t.Context(), s.Client, "summer")
	require.NoError(t, err)
	there, err := s.Has(t.Context(), "summer")
	require.NoError(t, err)
	require.False(t, there)
	require.True(t, s.has("summer/a.png"), "until the job runs")
	s.work()
	removed, err := engine.Wait[int](t.Context(), s.Client, id)
	require.NoError(t, err)
	require.Equal(t, 5, removed)
	require.False(t, s.has("summer"))
	require.True(t, s.has("winter/small/c.png"))
}

func TestAnAlbumWhoseJobCannotBeWrittenStays(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.add("summer")
	_, err := s.db.Pool.Exec(t.Context(), `ALTER TABLE coppice.jobs RENAME TO gone`)
	require.NoError(t, err)
	_, err = s.Remove(t.Context(), s.Client, "summer")
	require.ErrorContains(t, err, "remove summer")
	_, err = s.db.Pool.Exec(t.Context(), `ALTER TABLE coppice.gone RENAME TO jobs`)
	require.NoError(t, err)
	there, err := s.Has(t.Context(), "summer")
	require.NoError(t, err)
	require.True(t, there)
	require.True(t, s.has("summer/small/c.png"))
}

func TestACleanupThatTheWorldHasOvertakenIsSkippedAndRecordedSo(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.add("summer")
	id, err := s.Remove(t.Context(), s.Client, "summer")
	require.NoError(t, err)
	s.add("summer")
	s.work()
	_, err = engine.Wait[int](t.Context(), s.Client, id)
	var skipped *engine.SkippedError
	require.ErrorAs(t, err, &skipped)
	require.Equal(t, "album summer is there again", skipped.Why)
	require.True(t, s.has("summer/a.png"))
	row, err := s.Store().Job(t.Context(), id)
	require.NoError(t, err)
	require.True(t, row.Skipped)
}

func TestAPlanThatStoppedAnywhereEndsTheSameWhenItIsRepeated(t *testing.T) {
	t.Parallel()
	for done := range 6 {
		s := newShelf(t)
		s.add("summer")
		plan, err := s.plan("summer")
		require.NoError(t, err)
		require.Len(t, plan.Effects, 5)
		_, err = s.apply(Cleanup{Effects: plan.Effects[:done%6]}) // and the process died
		require.NoError(t, err)
		for _, want := range []int{5 - done, 0} {
			removed, err := s.apply(plan)
			require.NoError(t, err)
			require.Equal(t, want, removed)
			require.False(t, s.has("summer"))
		}
		if done == 5 {
			break
		}
	}
}

func TestAStepThatFailsIsRepeatedWithThoseBeforeItUntilAllAreDone(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.add("summer")
	id, err := s.Remove(t.Context(), s.Client, "summer")
	require.NoError(t, err)
	// A file turns up that the plan knows nothing of: its folder cannot be removed.
	stray := filepath.Join(s.Folder, "summer", "small", "stray.png")
	require.NoError(t, os.WriteFile(stray, nil, 0o600))
	s.work()
	require.Eventually(t, func() bool {
		errs, err := s.Store().Errors(t.Context(), id, 0)
		return err == nil && len(errs) > 1
	}, 20*time.Second, time.Millisecond, "it fails, and is tried again")
	require.NoError(t, os.Remove(stray))
	_, err = engine.Wait[int](t.Context(), s.Client, id)
	require.NoError(t, err)
	require.False(t, s.has("summer"))
}

func TestAnEntryIsWithTheAlbumOrWithTheJobWheneverTheProcessDies(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.add("summer")
	// The transaction of Remove is broken off before its commit: neither is written.
	err := pgx.BeginFunc(t.Context(), s.db.Pool, func(tx pgx.Tx) error {
		plan, err := s.plan("summer")
		require.NoError(t, err)
		_, err = s.InTx(tx).Insert(t.Context(), tree.New(plan))
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `DELETE FROM cleanupjournal_albums WHERE name = 'summer'`)
		require.NoError(t, err)
		return context.Canceled
	})
	require.ErrorIs(t, err, context.Canceled)
	there, err := s.Has(t.Context(), "summer")
	require.NoError(t, err)
	require.True(t, there)
	var jobs int
	require.NoError(t, s.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM coppice.jobs`).Scan(&jobs))
	require.Zero(t, jobs)
}

func TestAPathOutsideOfTheLibraryIsNeverTouched(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	_, err := s.apply(Cleanup{Effects: []Effect{{Remove: "../../etc/passwd"}}})
	require.ErrorContains(t, err, "is outside of the library")
	require.ErrorContains(t, s.Add(t.Context(), "../up", nil), "is no name for an album")
}
