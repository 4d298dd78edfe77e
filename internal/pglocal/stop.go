package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Close ends this use of the server. The last one out stops the server, unless it
// was started with StartDetached. Once Close has been called, the server counts this
// program as gone also where Close fails. Close again does nothing.
func (s *Server) Close(ctx context.Context) error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.use == nil {
		return nil
	}
	lock, err := lockFile(ctx, s.folder.lock())
	s.use.leave()
	s.use = nil
	if err != nil {
		return err
	}
	defer lock.unlock()
	users, err := s.folder.sweep()
	if err != nil || len(users) > 0 || s.folder.kept() {
		return err
	}
	return s.folder.down(ctx, s.bin)
}

// Stop stops the server that o means, also one started with StartDetached. With no
// server running it does nothing. While programs use the server, this one included,
// it fails with an *[InUseError] unless o.Force is set.
func Stop(ctx context.Context, o Options) error {
	return exclusively(ctx, o, func(f folder, b binaries) error { return f.down(ctx, b) })
}

// Reset stops the server that o means and deletes its cluster with all data and the
// log. While programs use the server it fails as Stop does.
func Reset(ctx context.Context, o Options) error {
	return exclusively(ctx, o, func(f folder, b binaries) error {
		if err := f.down(ctx, b); err != nil {
			return err
		}
		// The lock's file stays: a program that waits for it would else lock a file that
		// the next one does not see.
		for _, path := range []string{f.data(), f.run(), f.password(), f.config(), f.hba(), f.log(), f.log() + ".1"} {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("pglocal: delete the database: %w", err)
			}
		}
		f.removeHalfMade()
		return nil
	})
}

// exclusively calls do while no program may start to use the cluster.
func exclusively(ctx context.Context, o Options, do func(folder, binaries) error) error {
	t, err := choose(ctx, o)
	if err != nil {
		return err
	}
	f := t.folder
	if _, err := os.Stat(string(f)); errors.Is(err, os.ErrNotExist) {
		return nil // there is nothing to stop or delete
	}
	if err := f.prepare(); err != nil {
		return err
	}
	lock, err := lockFile(ctx, f.lock())
	if err != nil {
		return err
	}
	defer lock.unlock()
	users, err := f.sweep()
	if err != nil {
		return err
	}
	if len(users) > 0 && !o.Force {
		return &InUseError{Users: users}
	}
	// They may be gone, and Reset is the way out then. Only Windows stops a server
	// through its tools.
	b, _ := t.installed(ctx, o)
	return do(f, b)
}

// down stops the server if it runs. The caller holds the cluster's lock.
func (f folder) down(ctx context.Context, b binaries) error {
	if err := os.Remove(f.keep()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("pglocal: let the server stop: %w", err)
	}
	p := f.running()
	if p == nil {
		return nil
	}
	return halt(ctx, f, p, b)
}
