package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// errLocked reports that another program holds a lock.
var errLocked = errors.New("locked by another program")

// pollInterval is how often something outside this program is looked at again: a
// lock, a server that starts, a process that ends.
const pollInterval = 10 * time.Millisecond

// sharing says whether a lock excludes all others or only exclusive ones.
type sharing bool

const (
	exclusive sharing = false
	shared    sharing = true
)

// fileLock is an exclusive lock on a file. The kernel releases it when the program
// ends, in whatever way.
type fileLock struct{ file *os.File }

// lockFile takes the lock on path, waiting for it until ctx is done.
func lockFile(ctx context.Context, path string) (*fileLock, error) {
	for {
		l, err := tryLockFile(path)
		if !errors.Is(err, errLocked) {
			return l, err
		}
		if err := pause(ctx, pollInterval); err != nil {
			return nil, fmt.Errorf("pglocal: wait for the program that is starting or stopping the database: %w", err)
		}
	}
}

// tryLockFile takes the lock on path, making the file, or fails with errLocked.
func tryLockFile(path string) (*fileLock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("pglocal: open a lock: %w", err)
	}
	if err := lockHandle(file, exclusive); err != nil {
		_ = file.Close()
		return nil, err
	}
	return &fileLock{file}, nil
}

// unlock releases the lock. It says so to the kernel rather than only closing the
// file: a process being forked just now may still hold a copy of it.
func (l *fileLock) unlock() {
	unlockHandle(l.file)
	_ = l.file.Close()
}

// pause waits for d or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
