package pglocal_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/coppicehq/coppice/internal/pglocal"
)

// The test program runs itself as one of several programs that share a server.
const (
	roleEnv   = "PGLOCAL_TEST_ROLE" // set in such a program
	folderEnv = "PGLOCAL_TEST_FOLDER"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" {
		os.Exit(holdServer())
	}
	if err := os.Mkdir(testFolders(), 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(testFolders()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

// testFolders is the folder of all that tests make. They are removed together in
// the end: ext4 is slow to make files while many were removed in the last seconds.
// The name is short, to leave room for the names of sockets.
func testFolders() string { return filepath.Join(os.TempDir(), "pg"+itoa(os.Getpid())) }

// holdServer starts the server, says so, and closes it when its input ends.
func holdServer() int {
	ctx := context.Background()
	say := func(words ...any) { fmt.Fprintln(os.Stdout, words...) }
	s, err := pglocal.Start(ctx, pglocal.Options{
		Folder:   os.Getenv(folderEnv),
		Unsafe:   true,
		Progress: func(step string) { say("progress", step) },
	})
	if err == nil {
		say("ready", s.Info().PID)
		_, _ = io.Copy(io.Discard, os.Stdin)
		err = s.Close(ctx)
	}
	if err != nil {
		say("failed", err)
		return 1
	}
	return 0
}

// program is another program that uses the server.
type program struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func startProgram(t *testing.T, folder string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), roleEnv+"=hold", folderEnv+"="+folder)
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.lines = bufio.NewScanner(stdout)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // a program that the test has ended is gone already
		_ = p.cmd.Wait()
	})
	return p
}

// says waits for a line that starts with a word and returns the rest of it.
func (p *program) says(t *testing.T, word string) string {
	t.Helper()
	var said []string
	for p.lines.Scan() {
		said = append(said, p.lines.Text())
		if rest, ok := strings.CutPrefix(p.lines.Text(), word+" "); ok {
			return rest
		}
	}
	require.Failf(t, "the program ended", "without saying %q; it said %q", word, said)
	return ""
}

// leave has the program close the server and end.
func (p *program) leave(t *testing.T) {
	t.Helper()
	require.NoError(t, p.stdin.Close())
	for p.lines.Scan() {
		t.Log(p.lines.Text())
	}
	require.NoError(t, p.cmd.Wait())
}

// kill ends the program as kill -9 does.
func (p *program) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	require.Error(t, p.cmd.Wait())
}

// testFolder returns a new base folder, whose servers are stopped in the end.
func testFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp(testFolders(), "") //nolint:usetesting // see testFolders
	require.NoError(t, err)
	require.NoError(t, os.Chmod(folder, 0o755)) // root's server runs as another account
	t.Cleanup(func() {
		for _, unsafe := range []bool{false, true} {
			require.NoError(t, pglocal.Stop(context.Background(), pglocal.Options{Folder: folder, Unsafe: unsafe, Force: true}))
		}
	})
	return folder
}

// start starts a server that the test closes, or that is closed in the end.
func start(t *testing.T, o pglocal.Options) *pglocal.Server {
	t.Helper()
	s, err := pglocal.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s
}

func status(t *testing.T, o pglocal.Options) pglocal.Status {
	t.Helper()
	st, err := pglocal.GetStatus(t.Context(), o)
	require.NoError(t, err)
	return st
}

// execute runs a statement on a server through a connection of its own.
func execute(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), statement)
	require.NoError(t, err)
}

// ask returns the single value that a query gives, as text.
func ask(t *testing.T, url, query string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(t.Context(), query, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return value
}

func itoa(n int) string { return strconv.Itoa(n) }

// eventually waits until a condition about the world outside holds.
func eventually(t *testing.T, holds func() bool, what string) {
	t.Helper()
	require.Eventually(t, holds, 30*time.Second, time.Millisecond, what)
}
