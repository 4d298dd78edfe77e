package store_test

import (
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a broken store takes to fail a test, not how long a sound one takes.
const patience = 20 * time.Second

// awaitWaiting waits until n backends of the database wait for a lock.
func (in *intake) awaitWaiting(n int) {
	in.t.Helper()
	require.Eventually(in.t, func() bool {
		var waiting int
		err := in.db.Pool.QueryRow(in.t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		return err == nil && waiting >= n
	}, patience, 2*time.Millisecond)
}
