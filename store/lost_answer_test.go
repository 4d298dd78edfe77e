package store_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

var errCut = errors.New("the connection was cut")

// cutConn breaks once it has read so many more bytes. The server has everything that was sent by then.
type cutConn struct {
	net.Conn
	left *atomic.Int64 // negative: it never breaks
}

func (c cutConn) Read(b []byte) (int, error) {
	left := c.left.Load()
	if left < 0 {
		return c.Conn.Read(b)
	}
	if left == 0 {
		_ = c.Close()
		return 0, errCut
	}
	n, err := c.Conn.Read(b[:min(int64(len(b)), left)])
	c.left.Add(-int64(n))
	return n, err
}

// cut returns the store on one connection that can be made to break after so many bytes of an answer.
func (k *kit) cut() (*store.Store, *atomic.Int64) {
	k.t.Helper()
	left := &atomic.Int64{}
	left.Store(-1)
	config, err := pgxpool.ParseConfig(k.db.URL)
	require.NoError(k.t, err)
	config.MaxConns = 1
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // so that no answer is spent on preparing
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return cutConn{conn, left}, nil
	}
	pool, err := pgxpool.NewWithConfig(k.t.Context(), config)
	require.NoError(k.t, err)
	k.t.Cleanup(pool.Close)
	s, err := store.New(pool, k.db.Schema)
	require.NoError(k.t, err)
	return s, left
}

// whileCut calls do over a connection that breaks after 0, 20, 40, ... bytes of its answer, until it has the whole of
// it, and says how often it broke. Each call is followed by one of then.
func whileCut(t *testing.T, s *store.Store, left *atomic.Int64, do func() error, then func(broke bool)) (times int) {
	t.Helper()
	for after := int64(0); ; after += 20 {
		require.NoError(t, s.Pool().Ping(t.Context())) // a connection is there, and breaks during the call alone
		left.Store(after)
		err := do()
		left.Store(-1)
		if err == nil {
			then(false)
			return times
		}
		require.NotErrorAs(t, err, new(*pgconn.PgError))
		times++
		then(true)
	}
}

func TestASettleWhoseAnswerIsLostAnywhereMayBeSentAgain(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s, left := k.cut()
	w := k.worker()
	k.watchReadiness()
	var claims []store.Claim
	var batch []store.Ending
	trees := 0
	prepare := func() {
		k.insert(tree.New(task{}, tree.OnDead(tree.Proceed), tree.Queue("parents")).Add(
			tree.New(task{}), tree.New(task{}), tree.New(task{})), tree.New(task{}))
		trees++
		claims = k.claim(w, tree.DefaultQueue, 10)
		require.Len(t, claims, 4)
		batch = []store.Ending{completed(&claims[0]), dead(&claims[1]), ending(&claims[2], store.EndCancelled), completed(&claims[3])}
	}
	prepare()
	broke := whileCut(t, s, left, func() error {
		_, err := s.Settle(t.Context(), w, batch)
		return err
	}, func(broke bool) {
		if broke {
			_, err := k.Settle(t.Context(), w, batch) // what was written the first time is lost now, and not counted twice
			require.NoError(t, err)
		}
		// The transaction that broke off may still be on its way to its end, and lock the parent until then.
		var parents []store.Claim
		require.Eventually(t, func() bool {
			parents = k.claim(w, "parents", 10)
			return len(parents) == 1
		}, patience, time.Millisecond)
		require.Equal(t, [3]int{1, 1, 1}, [3]int{parents[0].Completed, parents[0].Dead, parents[0].Cancelled})
		k.settle(w, completed(&parents[0]))
		prepare()
	})
	require.Greater(t, broke, 10, "the answer is longer than that")
	k.requireReadiedOnce(trees - 1)
}

func TestAKeyedInsertWhoseAnswerIsLostAnywhereIsAnsweredWithTheSameJob(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	s, left := in.cut()
	plan := planOf(t, keyed("a"))
	broke := whileCut(t, s, left, func() error {
		_, err := s.Insert(t.Context(), plan)
		return err
	}, func(bool) {
		first := in.insert(keyed("a"))[0] // waits for the one that broke off, should it still commit
		require.Equal(t, first.ID, in.insert(keyed("a"))[0].ID)
		require.Equal(t, 1, in.count())
		require.Equal(t, int(first.ID), in.number(`SELECT id FROM coppice.jobs`))
		in.exec(`TRUNCATE coppice.jobs`)
	})
	require.Greater(t, broke, 5, "the answers are longer than that")
}
