package pglocal

import (
	"context"
	"fmt"
	"sync"
)

// Server is a running PostgreSQL server that this program uses.
type Server struct {
	folder folder
	bin    binaries
	info   Info
	url    string

	closing sync.Mutex
	use     *use // nil once closed
}

// Info is what a running server is and where it keeps things.
type Info struct {
	Version string // of the server, as in "15.18"
	PID     int    // of the server, which other programs may share
	Folder  string // of the cluster
	Data    string // the PostgreSQL data folder
	Log     string // the server's log
	Socket  string // the folder of the unix socket; empty when the server listens on a port
	Port    int    // on the loopback address, or the number in the socket's name
}

// Start returns the server that o means, and starts it unless it runs. The caller
// closes it. Every Start counts as a use of its own, also within one program.
//
// The first call makes the cluster, which takes a second or two, and fetches
// PostgreSQL if there is none. Start fails with a *[NoBinariesError], with a
// *[ServerError], or when ctx ends.
//
// When this program is the one that launched the server, a goroutine waits for the
// server to end. It outlasts Close where other programs go on using the server.
func Start(ctx context.Context, o Options) (*Server, error) { return start(ctx, o, false) }

// StartDetached is Start for a server that stays up, whether it is used or not,
// until Stop. The caller still closes what it returns.
func StartDetached(ctx context.Context, o Options) (*Server, error) { return start(ctx, o, true) }

func start(ctx context.Context, o Options, keep bool) (*Server, error) {
	t, err := choose(ctx, o)
	if err != nil {
		return nil, err
	}
	bin, err := t.obtain(ctx, o)
	if err != nil {
		return nil, err
	}
	f := t.folder
	if err := f.prepare(); err != nil {
		return nil, err
	}
	lock, err := lockFile(ctx, f.lock())
	if err != nil {
		return nil, err
	}
	defer lock.unlock()
	if _, err := f.sweep(); err != nil {
		return nil, err
	}
	p, err := f.up(ctx, o, bin)
	if err != nil {
		return nil, err
	}
	s := &Server{folder: f, bin: bin, info: f.info(p)}
	if s.url, err = f.connURL(p.addr, superuser); err != nil {
		return nil, err
	}
	if keep {
		if err := s.keep(); err != nil {
			return nil, err
		}
	}
	s.use, err = f.enter()
	return s, err
}

// URL returns the connection URL of the database coppice, as its superuser. It may
// hold a password.
func (s *Server) URL() string { return s.url }

// Info returns what the server is and where it keeps things.
func (s *Server) Info() Info { return s.info }

// Keep makes the server stay up until Stop, as StartDetached does.
func (s *Server) Keep(ctx context.Context) error {
	lock, err := lockFile(ctx, s.folder.lock())
	if err != nil {
		return err
	}
	defer lock.unlock()
	return s.keep()
}

func (s *Server) keep() error {
	if err := writeFile(s.folder.keep(), "", 0o600); err != nil {
		return fmt.Errorf("pglocal: keep the server running: %w", err)
	}
	return nil
}

func (f folder) info(p *postmaster) Info {
	return Info{
		Version: p.version,
		PID:     p.pid,
		Folder:  string(f),
		Data:    f.data(),
		Log:     f.log(),
		Socket:  p.addr.socket,
		Port:    p.addr.port,
	}
}
