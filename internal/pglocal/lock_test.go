package pglocal

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALockIsWaitedForAndTheWaitCanBeGivenUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held, err := lockFile(t.Context(), path)
	require.NoError(t, err)
	_, err = tryLockFile(path)
	require.ErrorIs(t, err, errLocked)

	ctx, cancel := context.WithTimeout(t.Context(), 3*pollInterval)
	defer cancel()
	_, err = lockFile(ctx, path)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "starting or stopping the database")

	got := make(chan *fileLock)
	go func() {
		l, err := lockFile(t.Context(), path)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	held.unlock()
	select {
	case l := <-got:
		l.unlock()
	case <-time.After(10 * time.Second):
		t.Error("the lock was not handed on")
	}
}
