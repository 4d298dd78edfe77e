package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A few ways to fail go away by themselves.
const (
	portTaken  = "Address already in use"           // another program was quicker
	childAlive = "pre-existing shared memory block" // a child of a killed server is still at work
)

// launch makes the data folder unless there is one and starts a server on it.
func (f folder) launch(ctx context.Context, o Options, b binaries, acc *account) (*postmaster, error) {
	if err := f.ensureData(ctx, o, b, acc); err != nil {
		return nil, err
	}
	if err := f.makeRun(acc); err != nil {
		return nil, err
	}
	for {
		p, err := f.launchOnce(ctx, o, b, acc)
		var failed *ServerError
		if !errors.As(err, &failed) || !errors.Is(err, errEnded) {
			return p, err
		}
		switch {
		case strings.Contains(failed.Log, childAlive), !f.usesSocket() && strings.Contains(failed.Log, portTaken):
			if pause(ctx, 10*pollInterval) != nil {
				return nil, err
			}
		case f.running() != nil: // started by a program that was killed just then
			return f.await(ctx, func() bool { return f.running() != nil })
		default:
			return nil, err
		}
	}
}

// makeRun makes the folder of the socket, for the account that runs the server.
func (f folder) makeRun(acc *account) error {
	err := os.Mkdir(f.run(), 0o700)
	if err == nil || os.IsExist(err) {
		err = acc.own(f.run())
	}
	if err != nil {
		return fmt.Errorf("pglocal: make the folder of the socket: %w", err)
	}
	return nil
}

func (f folder) launchOnce(ctx context.Context, o Options, b binaries, acc *account) (*postmaster, error) {
	addr, err := f.newAddress()
	if err != nil {
		return nil, err
	}
	if err := writeSettings(f, addr, o.Unsafe); err != nil {
		return nil, err
	}
	if err := f.clearStale(acc); err != nil {
		return nil, err
	}
	log, offset, err := f.openLog()
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the server has it open
	cmd := launchCommand(b, f)
	cmd.Dir = f.data()
	cmd.Stdout, cmd.Stderr = log, log
	runAs(cmd, acc)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("pglocal: start %s: %w", cmd.Path, err)
	}
	ended := make(chan struct{})
	go reap(cmd, ended)
	p, err := f.await(ctx, func() bool {
		select {
		case <-ended:
			return false
		default:
			return true
		}
	})
	if err == nil {
		return p, nil
	}
	if !errors.Is(err, errEnded) {
		f.abandon(b)
	}
	return nil, &ServerError{Err: err, Log: f.logTail(offset), At: f.log()}
}

// abandon stops a server that did not come up in time, or that nobody waits for any
// more. What went wrong first says more than a failure of this.
func (f folder) abandon(b binaries) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if p := f.running(); p != nil {
		_ = halt(ctx, f, p, b)
	}
}

// reap waits for what was launched, so that it does not stay a zombie that looks
// alive, and closes ended once that means that there is no server.
func reap(cmd *exec.Cmd, ended chan<- struct{}) {
	if err := cmd.Wait(); err != nil || launchIsServer {
		close(ended)
	}
}
