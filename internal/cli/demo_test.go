package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/testcheck"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// forest makes a folder of so many files, twenty in a folder.
func forest(t testing.TB, files int) string {
	t.Helper()
	root := t.TempDir()
	for i := range files {
		folder := filepath.Join(root, fmt.Sprintf("pkg%03d", i/20))
		require.NoError(t, os.MkdirAll(folder, 0o755))
		text := fmt.Sprintf("// File %d.\npackage pkg\n", i)
		require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("f%02d.go", i%20)), []byte(text), 0o644))
	}
	return root
}

// checked ends the test in the invariant check.
func checked(t testing.TB, w *world) *world {
	t.Helper()
	st, err := store.New(w.Pool, w.Schema)
	require.NoError(t, err)
	t.Cleanup(func() { testcheck.AssertInvariants(t, st); w.AssertNoDeadlocks(t) })
	return w
}

func TestDemoCountsAFolderAndVerifiesIt(t *testing.T) {
	t.Parallel()
	w := checked(t, newWorld(t))
	path := forest(t, 200)
	got := w.run("demo", "--path", path)
	out := got.ok()
	require.Contains(t, got.err, "211 jobs for 200 files in 11 folders")
	require.Contains(t, out, "Totals of "+path)
	require.Contains(t, out, "pkg009")
	require.Contains(t, out, "211 completed, 0 dead; 11 were finalizers")
	require.True(t, strings.HasSuffix(strings.TrimSpace(out), "verified"))
	require.Contains(t, w.run("queue", "list").err, "there are no queues", "it leaves no queue behind")
	require.Contains(t, w.run("tree", "list", "--finished").ok(), "completed")
}

func TestDemoAnswersInOneJSONObject(t *testing.T) {
	t.Parallel()
	w := checked(t, newWorld(t))
	got := readJSON[demoJSON](w.run("demo", "--path", forest(t, 200), "--files", "50", "--json"))
	require.True(t, got.Verified)
	require.EqualValues(t, 54, got.Jobs)
	require.EqualValues(t, 54, got.Completed)
	require.EqualValues(t, 4, got.Finalizers)
	require.Zero(t, got.Dead+got.Cancelled+got.Live)
	require.Positive(t, got.Seconds)
	require.EqualValues(t, 50, got.Report.Files)
	require.True(t, strings.HasPrefix(got.Queue, demoQueue))
	require.NotZero(t, got.Tree)

	var keys map[string]any
	require.NoError(t, json.Unmarshal([]byte(w.run("demo", "--path", t.TempDir(), "--json").ok()), &keys))
	for _, k := range []string{"jobs", "completed", "dead", "finalizers", "seconds", "verified"} {
		require.Contains(t, keys, k)
	}
	require.InDelta(t, 1, keys["jobs"], 0, "an empty folder is a root without children")
	require.Equal(t, true, keys["verified"])
}

func TestDemoDrawsABarOnATerminal(t *testing.T) {
	t.Parallel()
	w := checked(t, newWorld(t))
	w.terminal, w.columns = true, 100
	got := w.run("demo", "--path", forest(t, 200), "--json")
	readJSON[demoJSON](got)
	require.Contains(t, got.err, "jobs done [211 of 211 in ")
}

func TestDemoRefusesFoldersThatItCannotCount(t *testing.T) {
	t.Parallel()
	s := newShell(t) // without a database: the folder is looked at first
	gone := filepath.Join(t.TempDir(), "gone")
	s.run("demo", "--path", gone).fails(exitFailed, "--path: open "+gone+": no such file")
	file := filepath.Join(forest(t, 1), "pkg000", "f00.go")
	s.run("demo", "--path", file).fails(exitFailed, file+" is no folder")
	for words, says := range map[string]string{
		"demo --files 0":              "--files: 0 is below 1; leave it out",
		"demo --files -3":             "--files: -3 is below 1",
		"demo --path=":                "--path is empty",
		"demo --resume 0":             "no tree's id",
		"demo --resume 1 --files 100": "goes without --path and --files",
	} {
		s.run(strings.Fields(words)...).fails(exitUsage, says)
	}
}

func TestDemoNamesTheFileThatNoJobCanRead(t *testing.T) {
	t.Parallel()
	w := checked(t, newWorld(t))
	path := forest(t, 40)
	// A file that is there when the tree is made and not when its job runs.
	w.exec(`CREATE FUNCTION {s}.vanish() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN NEW.args := replace(NEW.args::text, 'pkg001/f07.go', 'pkg001/f07.gone')::json; RETURN NEW; END $$`)
	w.exec(`CREATE TRIGGER vanish BEFORE INSERT ON {s}.jobs FOR EACH ROW EXECUTE FUNCTION {s}.vanish()`)
	got := w.run("demo", "--path", path, "--json")
	got.fails(exitFailed, "died: open "+filepath.Join(path, "pkg001", "f07.gone")+": no such file")
	require.NotContains(t, got.err, "goroutine")
	said := parseJSON[demoJSON](t, got.out)
	require.False(t, said.Verified)
	require.Contains(t, said.Problem, "f07.gone: no such file")
	require.EqualValues(t, 43, said.Jobs)
	require.EqualValues(t, 1, said.Dead)
	require.Nil(t, said.Report)
}

func TestDemoNamesTheFileThatChangedAfterItsJob(t *testing.T) {
	t.Parallel()
	w := checked(t, newWorld(t))
	path := forest(t, 60)
	done := readJSON[demoJSON](w.run("demo", "--path", path, "--json"))
	again := func() said { return w.run("demo", "--resume", done.Tree.String()) }
	again().ok() // it is done, and is walked once more

	file := filepath.Join(path, "pkg001", "f03.go")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte("changed"), 0o600))
	got := again()
	got.fails(exitFailed, file+" has changed since its job read it")
	require.NotContains(t, got.out, "verified")

	require.NoError(t, os.Remove(file))
	again().fails(exitFailed, file+" is gone: its job had read it")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	added := filepath.Join(path, "pkg000", "a.go")
	require.NoError(t, os.WriteFile(added, nil, 0o600))
	again().fails(exitFailed, added+" is new")
	require.NoError(t, os.Remove(added))
	again().ok()
	require.NoError(t, os.RemoveAll(path))
	again().fails(exitFailed, "the plain walk, after the jobs, failed")
}

func TestDemoResumesNothingButItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.album()
	w.run("demo", "--resume", "1").fails(exitFailed, "job 1 is not the root of a tree that counts a folder")
	w.run("demo", "--resume", "1000").fails(exitFailed, "there is no tree 1000")
}

// interrupter cancels the run as soon as stderr has the words.
type interrupter struct {
	strings.Builder
	words     string
	interrupt context.CancelFunc
}

func (i *interrupter) Write(p []byte) (int, error) {
	n, err := i.Builder.Write(p)
	if strings.Contains(i.String(), i.words) {
		i.interrupt()
	}
	return n, err
}

func TestDemoInterruptedSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	w := checked(t, newWorld(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out strings.Builder
	stderr := &interrupter{words: "jobs for", interrupt: cancel}
	app := &App{In: strings.NewReader(""), Out: &out, Err: stderr, Env: func(name string) string { return w.env[name] }}
	code := app.Run(ctx, []string{"demo", "--path", forest(t, 2_000), "--json"})
	require.Equal(t, exitInterrupted, code)
	require.Empty(t, out.String())
	require.Contains(t, stderr.String(), "interrupted: ")
	require.Contains(t, stderr.String(), "jobs of tree 1 stay in the database")
	require.Contains(t, stderr.String(), "coppice tree show 1 ")
	require.Contains(t, w.run("tree", "show", "1").ok(), "2,101 jobs")

	got := readJSON[demoJSON](w.run("demo", "--resume", "1", "--json"))
	require.True(t, got.Verified)
	require.EqualValues(t, 2_101, got.Completed)
}

func TestDemoInterruptedAtOnceLeavesNothing(t *testing.T) {
	t.Parallel()
	w := checked(t, newWorld(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := w.runUntil(ctx, "demo", "--path", forest(t, 20))
	require.Equal(t, exitInterrupted, got.code)
	require.Empty(t, got.out)
	require.Contains(t, w.run("tree", "list").err, "there are no such trees")
}

// demoProcess, if set, makes TestDemoProcess a demo of that folder, to be killed.
const demoProcess = "COPPICE_TEST_DEMO_PATH"

func TestDemoProcess(t *testing.T) {
	t.Parallel()
	path := os.Getenv(demoProcess)
	if path == "" {
		t.Skip("only in a process of its own")
	}
	System().Run(t.Context(), []string{"demo", "--path", path})
}

func TestAKilledDemoDoesNotDisturbTheNextAndCanBeResumed(t *testing.T) {
	t.Parallel()
	w := checked(t, newWorld(t))
	killed := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDemoProcess$")
	killed.Env = append(os.Environ(), demoProcess+"="+forest(t, 2_000), databaseEnv+"="+w.URL, schemaEnv+"="+w.Schema)
	stderr, err := killed.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, killed.Start())
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "tree ") {
	}
	require.NoError(t, killed.Process.Kill())
	require.Error(t, killed.Wait())
	var first tree.ID
	require.NoError(t, w.Pool.QueryRow(t.Context(), "SELECT id FROM "+w.Schema+".jobs WHERE parent_id IS NULL").Scan(&first))
	w.exec(`UPDATE {s}.workers SET expires_at = now() - interval '1 second'`)

	next := w.run("demo", "--path", forest(t, 200))
	require.Contains(t, next.ok(), "211 completed, 0 dead; 11 were finalizers")
	require.Contains(t, next.err, "1 earlier demo was left unfinished, which this one did not touch: coppice demo --resume "+first.String())
	require.Contains(t, w.run("tree", "list").ok(), "waiting")

	got := readJSON[demoJSON](w.run("demo", "--resume", first.String(), "--json"))
	require.True(t, got.Verified)
	require.EqualValues(t, 2_101, got.Completed)
	require.EqualValues(t, 101, got.Finalizers)
	require.Contains(t, w.run("queue", "list").err, "there are no queues")
}

func TestTwoDemosAtOnceDoNotMix(t *testing.T) {
	t.Parallel()
	w := checked(t, newWorld(t))
	path := forest(t, 200)
	other := make(chan said)
	go func() { other <- w.run("demo", "--path", path, "--json") }()
	for _, s := range []said{w.run("demo", "--path", path, "--json"), <-other} {
		got := readJSON[demoJSON](s)
		require.True(t, got.Verified)
		require.EqualValues(t, 211, got.Completed)
	}
}
