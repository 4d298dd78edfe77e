package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// up returns the cluster's server once it accepts connections: the one that runs,
// whoever started it, or a new one. The caller holds the cluster's lock.
func (f folder) up(ctx context.Context, o Options, b binaries) (*postmaster, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.startTimeout(),
		fmt.Errorf("it does not accept connections after %v", o.startTimeout()))
	defer cancel()
	alive := func() bool { return f.running() != nil || f.answers(ctx) }
	for alive() {
		p, err := f.await(ctx, alive)
		switch {
		case err == nil:
			return p, nil
		case !errors.Is(err, errEnded):
			return nil, &ServerError{Err: err, Log: f.logTail(0), At: f.log()}
		}
	}
	acc, err := serverAccount(ctx, f, b)
	if err != nil {
		return nil, err
	}
	if o.Unsafe {
		// It was kept for somebody to look at, and is not there to be looked at any more.
		_ = os.Remove(f.keep())
	}
	p, err := f.launch(ctx, o, b, acc)
	var failed *ServerError
	if o.Unsafe && errors.As(err, &failed) && ctx.Err() == nil {
		// Without fsync a crash of the machine can leave data that no server can read.
		if err := os.RemoveAll(f.data()); err != nil {
			return nil, errors.Join(failed, err)
		}
		return f.launch(ctx, o, b, acc)
	}
	return p, err
}

// answers reports whether the server answers whose process cannot be seen: it may be
// in another container that has the same folder.
func (f folder) answers(ctx context.Context) bool {
	p := f.postmaster()
	if p == nil {
		return false
	}
	_, err := f.ping(ctx, p.addr)
	return err == nil
}

// errEnded reports that the server's process ended.
var errEnded = errors.New("its process ended")

// await returns the server once it accepts connections. It fails with errEnded when
// alive says no, with the cause when ctx ends, and when the server refuses us.
func (f folder) await(ctx context.Context, alive func() bool) (*postmaster, error) {
	var last error
	for {
		// The order matters: a server that is gone after a failed ping was perhaps not
		// yet gone before it.
		p := f.postmaster()
		if p != nil {
			if p.version, last = f.ping(ctx, p.addr); last == nil {
				return p, nil
			}
			if !notYet(last) && ctx.Err() == nil {
				return nil, last
			}
		}
		if !alive() {
			return nil, errEnded
		}
		if err := pause(ctx, pollInterval); err != nil {
			return nil, errors.Join(err, last)
		}
	}
}
