package store_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/store"
)

func TestHistoryPartitionsAreMadeOnceByManyAtOnce(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	s, err := store.New(db.Pool, db.Schema)
	require.NoError(t, err)
	var wg sync.WaitGroup
	errs := make(chan error, 6)
	for range 6 {
		wg.Go(func() {
			_, err := s.EnsureHistory(t.Context())
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	_, err = s.EnsureHistory(t.Context()) // all six may have left a day to another
	require.NoError(t, err)
	var n int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_inherits WHERE inhparent = 'coppice.history'::regclass`).Scan(&n))
	require.Equal(t, 9, n, "eight days and the default")
	made, err := s.EnsureHistory(t.Context())
	require.NoError(t, err)
	require.Zero(t, made)
}

func TestADayWhoseRowsAreInTheDefaultPartitionStaysThere(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	s, err := store.New(db.Pool, db.Schema)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `INSERT INTO coppice.history (id, root_id, state, queue, kind, args) VALUES (1, 1, 'completed', 'q', 'k', '{}')`)
	require.NoError(t, err)
	made, err := s.EnsureHistory(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7, made, "all but today")
}
