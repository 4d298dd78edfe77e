//go:build unix

package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// launchIsServer says that the launched process is the server.
const launchIsServer = true

// launchCommand is the server itself: it is ready sooner than through pg_ctl.
func launchCommand(b binaries, f folder) *exec.Cmd {
	//nolint:noctx // the server outlives whoever starts it
	return exec.Command(b.path("postgres"), "-D", f.data(), "-c", "config_file="+f.config())
}

// patience is how long a server gets to stop in good order. After it the server is
// told to stop at once, which loses nothing but the time to replay its log.
const patience = time.Minute

// halt stops a running server without waiting for its clients, and returns once it
// is gone.
func halt(ctx context.Context, f folder, p *postmaster, _ binaries) error {
	if err := kill(p.pid, syscall.SIGINT); err != nil {
		return err
	}
	hurry := time.Now().Add(patience)
	for serves(p.pid, f.data()) {
		if err := pause(ctx, pollInterval); err != nil {
			return fmt.Errorf("pglocal: wait for the server to stop: %w", err)
		}
		if time.Now().After(hurry) {
			if err := kill(p.pid, syscall.SIGQUIT); err != nil {
				return err
			}
			hurry = hurry.Add(patience)
		}
	}
	return nil
}

func kill(pid int, signal syscall.Signal) error {
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("pglocal: stop the server, process %d: %w", pid, err)
	}
	return nil
}
