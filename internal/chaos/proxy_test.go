package chaos_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// proxy stands between a pool and the server, on the loopback address, and can swallow the answer to a commit: the
// server has written the transaction, and the client sees its connection end.
type proxy struct {
	t      testing.TB
	target string // the server's unix socket
	listen net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex // protects following fields
	conns map[net.Conn]struct{}
	marks map[string]int // text of a statement: how many transactions with it are still to lose their answer

	cuts atomic.Int64
}

func newProxy(t testing.TB, url string) (*proxy, *pgxpool.Config) {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	p := &proxy{
		t: t, target: fmt.Sprintf("%s/.s.PGSQL.%d", config.ConnConfig.Host, config.ConnConfig.Port),
		conns: map[net.Conn]struct{}{}, marks: map[string]int{},
	}
	var lc net.ListenConfig
	p.listen, err = lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = p.listen.Close()
		p.mu.Lock()
		for c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	config.ConnConfig.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", p.listen.Addr().String())
	}
	return p, config
}

// lose makes the answers of the next n transactions with this text in a statement go astray. The text is seen when the
// statement is prepared or run, so the pool must not keep prepared ones.
func (p *proxy) lose(text string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marks[text] = n
}

// left is how many answers are still to be lost.
func (p *proxy) left() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.marks {
		n += m
	}
	return n
}

func (p *proxy) hit(message []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for text, n := range p.marks {
		if n > 0 && bytes.Contains(message, []byte(text)) {
			p.marks[text]--
			return true
		}
	}
	return false
}

func (p *proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		var d net.Dialer
		srv, err := d.DialContext(context.Background(), "unix", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[srv] = struct{}{}, struct{}{}
		p.mu.Unlock()
		var doomed atomic.Bool
		end := func() {
			_ = client.Close()
			_ = srv.Close()
		}
		p.wg.Go(func() {
			defer end()
			p.up(client, srv, &doomed)
		})
		p.wg.Go(func() {
			defer end()
			p.down(srv, client, &doomed)
		})
	}
}

// up forwards what the client sends, message by message, and marks the connection whose transaction is to be cut.
func (p *proxy) up(client, srv net.Conn, doomed *atomic.Bool) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(client, head[:4]); err != nil { // the start-up message has no type
		return
	}
	body := make([]byte, binary.BigEndian.Uint32(head)-4)
	if _, err := io.ReadFull(client, body); err != nil {
		return
	}
	if _, err := srv.Write(append(bytes.Clone(head[:4]), body...)); err != nil {
		return
	}
	for {
		m, err := message(client, head)
		if err != nil {
			return
		}
		if (m[0] == 'P' || m[0] == 'Q') && p.hit(m) {
			doomed.Store(true)
		}
		if _, err := srv.Write(m); err != nil {
			return
		}
	}
}

// down forwards what the server answers, and ends a doomed connection once the server says that its transaction is
// over: with the answer to COMMIT, or, without BEGIN, when it is ready for the next one.
func (p *proxy) down(srv, client net.Conn, doomed *atomic.Bool) {
	head := make([]byte, 5)
	for {
		m, err := message(srv, head)
		if err != nil {
			return
		}
		commit := m[0] == 'C' && bytes.Equal(m[5:], []byte("COMMIT\x00"))
		if doomed.Load() && (commit || m[0] == 'Z' && m[5] == 'I') {
			p.cuts.Add(1)
			return
		}
		if _, err := client.Write(m); err != nil {
			return
		}
	}
}

func message(from io.Reader, head []byte) ([]byte, error) {
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	m := make([]byte, 1+binary.BigEndian.Uint32(head[1:]))
	copy(m, head)
	_, err := io.ReadFull(from, m[5:])
	return m, err
}
