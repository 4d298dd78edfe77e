package pglocal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// lockedByte lies far behind what a lock file holds, since a locked range cannot be
// read by others.
func lockedByte() *windows.Overlapped { return &windows.Overlapped{Offset: 1 << 30} }

func lockHandle(file *os.File, how sharing) error {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if how == exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(file.Fd()), flags, 0, 1, 0, lockedByte())
	switch {
	case err == nil:
		return nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION):
		return errLocked
	default:
		return fmt.Errorf("pglocal: lock %s: %w", file.Name(), err)
	}
}

func unlockHandle(file *os.File) {
	_ = windows.UnlockFileEx(windows.Handle(file.Fd()), 0, 1, 0, lockedByte())
}
