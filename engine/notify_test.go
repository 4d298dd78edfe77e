package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/migrations"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// ear counts the wake-ups of a schema, by queue.
type ear struct {
	heard chan string
}

// listen listens until the test ends, on a connection that is not the client's.
func listen(t *testing.T, s *store.Store) *ear {
	t.Helper()
	e := &ear{heard: make(chan string, 100_000)}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Listen(ctx, store.Hints{
			Ready: func() { close(ready) }, Wake: func(queue string) { e.heard <- queue },
			Changed: func(string) {}, Told: func(tree.WorkerID) {},
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	receive(t, ready)
	return e
}

// until counts what is heard up to the last of the queues named end.
func (e *ear) until(t *testing.T, end string) (n int) {
	t.Helper()
	for receive(t, e.heard) != end {
		n++
	}
	return n
}

func TestAThousandInsertsSendFewWakeUps(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	e := listen(t, k.Store())
	begun := time.Now()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 125 {
				_, err := k.Insert(context.Background(), tree.New(leaf{}))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(begun)
	require.NoError(t, k.Close(t.Context()))
	k.Wake("end")
	n := e.until(t, "end")
	require.Positive(t, n)
	require.LessOrEqual(t, n, int(took/(10*time.Millisecond))+2, "at most one every ten milliseconds")
	require.Less(t, n, 1_000)
	t.Logf("%d wake-ups for 1000 inserts in %v", n, took)
}

func TestOneWakeUpNamesEachQueueOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	e := listen(t, k.Store())
	root := tree.New(sum{})
	for n := range 3_000 {
		root.Add(tree.New(leaf{}, tree.Queue(fmt.Sprint("q", n%30))))
	}
	k.insert(root)
	k.Wake()
	require.NoError(t, k.Close(t.Context()))
	k.Wake("end")
	require.Equal(t, 31, e.until(t, "end"))
}

func TestTheFirstWakeUpOfABurstGoesAtOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	e := listen(t, k.Store())
	k.Wake("a")
	require.Equal(t, "a", receive(t, e.heard), "without a second, and without Close")
	k.Wake("b")
	require.Equal(t, "b", receive(t, e.heard))
}

func TestInsertsOfACallersTransactionSendNothing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	e := listen(t, k.Store())
	require.NoError(t, pgx.BeginFunc(t.Context(), k.db.Pool, func(tx pgx.Tx) error {
		_, err := k.InTx(tx).Insert(t.Context(), tree.New(leaf{}))
		return err
	}))
	require.NoError(t, k.Close(t.Context()))
	k.Wake("end")
	require.Zero(t, e.until(t, "end"))
}

func TestARefusedInsertSendsNothing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	e := listen(t, k.Store())
	_, err := k.Insert(t.Context(), tree.New(leaf{}, tree.Priority(1e6)))
	require.Error(t, err)
	k.Wake("end")
	require.Zero(t, e.until(t, "end"))
}

func TestCloseSendsWhatIsLeftAndLeavesNoGoroutine(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	e := listen(t, k.Store())
	for n := range 100 {
		k.Wake(fmt.Sprint(n))
	}
	require.NoError(t, k.Close(t.Context()))
	for range 100 {
		receive(t, e.heard)
	}
	require.Eventually(t, func() bool { return !strings.Contains(stacks(), "notifier") }, patience, 5*time.Millisecond,
		"no other test's burst lasts as long")
	require.NoError(t, k.Close(t.Context()), "a client may be closed again, and used")
	k.Wake("more")
	require.Equal(t, "more", receive(t, e.heard))
}

func stacks() string {
	buf := make([]byte, 4<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

func TestCloseGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	conns, err := k.db.Pool.Acquire(t.Context())
	require.NoError(t, err)
	held := []interface{ Release() }{conns}
	for range 7 { // the whole pool
		conn, err := k.db.Pool.Acquire(t.Context())
		require.NoError(t, err)
		held = append(held, conn)
	}
	k.Wake("a")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	require.ErrorIs(t, k.Close(ctx), errGone)
	for _, conn := range held {
		conn.Release()
	}
}

// TestWakeUpsReachWorkersOfAnySchema uses the longest names, one of them too long for a channel as it is.
func TestWakeUpsReachWorkersOfAnySchema(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	seen := map[string]bool{}
	for _, schema := range []string{
		strings.Repeat("x", 55), strings.Repeat("x", 56), strings.Repeat("x", 63), strings.Repeat("木", 21), `it's "q"`,
	} {
		require.NoError(t, migrations.ValidSchema(schema))
		client, err := engine.NewClient(k.db.Pool, engine.ClientConfig{Schema: schema})
		require.NoError(t, err)
		channel := client.Store().Channel()
		require.LessOrEqual(t, len(channel), 63)
		require.False(t, seen[channel])
		seen[channel] = true
		e := listen(t, client.Store())
		longest := strings.Repeat("木", tree.MaxQueueBytes/3)
		client.Wake(longest)
		require.Equal(t, longest, receive(t, e.heard))
		require.NoError(t, client.Close(t.Context()))
	}
}

var errGone = errors.New("the caller is gone")
