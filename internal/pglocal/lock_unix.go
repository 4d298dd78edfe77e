//go:build unix

package pglocal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func lockHandle(file *os.File, how sharing) error {
	op := unix.LOCK_EX
	if how == shared {
		op = unix.LOCK_SH
	}
	for {
		err := unix.Flock(int(file.Fd()), op|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLocked
		default:
			return fmt.Errorf("pglocal: lock %s: %w", file.Name(), err)
		}
	}
}

func unlockHandle(file *os.File) { _ = unix.Flock(int(file.Fd()), unix.LOCK_UN) }
