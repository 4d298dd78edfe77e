package engine_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/internal/testdb"
)

// pgbouncer starts a PgBouncer in transaction mode in front of the server of a pool and returns its port.
func pgbouncer(t *testing.T, program string, server *pgx.ConnConfig) uint16 {
	t.Helper()
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := free.Addr().(*net.TCPAddr).Port
	require.NoError(t, free.Close())
	dir := t.TempDir()
	file := filepath.Join(dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `[databases]
* = host=%s port=%d user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
server_idle_timeout = 1
`, server.Host, server.Port, server.User, port), 0o644))
	command := exec.Command(program, file)
	if os.Geteuid() == 0 { // it does not run as root: it gets the account that owns the server's socket
		info, err := os.Stat(server.Host)
		require.NoError(t, err)
		owner := info.Sys().(*syscall.Stat_t)
		require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	command.Stderr = t.Output()
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGINT)
		_ = command.Wait()
	})
	require.Eventually(t, func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, patience, 10*time.Millisecond, "PgBouncer does not listen")
	return uint16(port)
}

// TestTheCoreWorksBehindPgBouncer runs with make test-pgbouncer, where COPPICE_PGBOUNCER names the program.
func TestTheCoreWorksBehindPgBouncer(t *testing.T) {
	t.Parallel()
	program := os.Getenv("COPPICE_PGBOUNCER")
	if program == "" {
		t.Skip("COPPICE_PGBOUNCER does not name a pgbouncer")
	}
	// A database of its own only to learn where the server is; PgBouncer serves them all.
	server, err := pgx.ParseConfig(testdb.New(t).URL)
	require.NoError(t, err)
	port := pgbouncer(t, program, server)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			k := newKitIn(t, environment{pool: func(c *pgxpool.Config) {
				c.ConnConfig.Host, c.ConnConfig.Port, c.ConnConfig.DefaultQueryExecMode = "127.0.0.1", port, mode
				c.ConnConfig.Fallbacks, c.ConnConfig.TLSConfig = nil, nil
			}})
			requireTheCore(t, k, engine.WorkerConfig{PollInterval: 50 * time.Millisecond, PollOnly: true})
		})
	}
}
