package chaos_test

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/reaper"
	"github.com/coppicehq/coppice/tree"
)

// process is a worker in a process of its own.
type process struct {
	cmd *exec.Cmd
	out *bytes.Buffer
}

func spawn(t *testing.T, url string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(context.Background(), os.Args[0]), out: &bytes.Buffer{}}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+url)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		p.kill()
		if t.Failed() {
			t.Log(p.out.String())
		}
	})
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func TestAHandlerThatEndsItsProcessCostsItsWorkersJobsAnAttempt(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	_, err := db.Pool.Exec(t.Context(), runsTable)
	require.NoError(t, err)
	client, err := engine.NewClient(db.Pool, engine.ClientConfig{})
	require.NoError(t, err)
	r, err := client.Insert(t.Context(), tree.New(sum{}, patient(tree.Meta("leaves", "4"))...).Add(
		tree.New(bomb{}), tree.New(leaf{}, patient()...), tree.New(leaf{}, patient()...), tree.New(leaf{}, patient()...)))
	require.NoError(t, err)
	first := spawn(t, db.URL)
	require.ErrorContains(t, first.cmd.Wait(), "exit status 3")
	spawn(t, db.URL)
	reap, err := reaper.New(client.Store(), reaper.Config{Rescue: "@every 1s"})
	require.NoError(t, err)
	require.NoError(t, reap.Start())
	defer func() { require.NoError(t, reap.Stop(context.Background())) }()
	drained(t, db.Pool, client.Store(), len(r.IDs), time.Minute)
	require.Equal(t, 2, number(t, db.Pool, `SELECT attempt FROM coppice.history WHERE kind = 'bomb'`))
}

func TestEveryTreeEndsOnceThoughItsWorkersAreKilledAndFrozen(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	_, err := db.Pool.Exec(t.Context(), runsTable)
	require.NoError(t, err)
	client, err := engine.NewClient(db.Pool, engine.ClientConfig{})
	require.NoError(t, err)
	rounds := either(6, 40)
	jobs := 0
	for range rounds {
		for _, n := range []struct{ depth, width int }{{30, 4}, {1, 300}, {4, 30}, {1, 1}} {
			r, err := client.Insert(t.Context(), wood(n.depth, n.width, 3_000, ""))
			require.NoError(t, err)
			jobs += len(r.IDs)
		}
	}
	reap, err := reaper.New(client.Store(), reaper.Config{Rescue: "@every 1s", Logger: slog.New(newLogbook(t))})
	require.NoError(t, err)
	require.NoError(t, reap.Start())
	defer func() { require.NoError(t, reap.Stop(context.Background())) }()

	workers := []*process{spawn(t, db.URL), spawn(t, db.URL)}
	for round := range rounds {
		n := rand.IntN(2)
		<-time.After(time.Duration(300+rand.IntN(500)) * time.Millisecond)
		if round%3 == 2 { // past the lease and back
			require.NoError(t, workers[n].cmd.Process.Signal(syscall.SIGSTOP))
			<-time.After(2500 * time.Millisecond)
			require.NoError(t, workers[n].cmd.Process.Signal(syscall.SIGCONT))
			continue
		}
		workers[n].kill()
		workers[n] = spawn(t, db.URL)
	}
	drained(t, db.Pool, client.Store(), jobs, time.Minute)
	// Every attempt ran once, and every attempt beyond the first of a job was explained by a rescue.
	require.Zero(t, number(t, db.Pool, `SELECT count(*) FROM (SELECT FROM runs GROUP BY job, round, attempt HAVING count(*) > 1) twice`), "attempts that ran twice")
	again := number(t, db.Pool, `SELECT count(*) - count(DISTINCT job) FROM runs`)
	lost := number(t, db.Pool, `SELECT count(*) FROM coppice.job_errors WHERE outcome = 'lost'`)
	failed := number(t, db.Pool, `SELECT count(*) FROM coppice.job_errors WHERE outcome <> 'lost'`)
	t.Logf("%d jobs, %d runs beyond the first, %d rescued claims, %d failures", jobs, again, lost, failed)
	require.LessOrEqual(t, again, lost+failed)
	db.AssertNoDeadlocks(t)
}
