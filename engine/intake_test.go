package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // a driver of database/sql
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

func TestAnInsertOfNothingAnswersNothing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	got, err := k.InsertMany(t.Context())
	require.NoError(t, err)
	require.NotNil(t, got)
	require.Empty(t, got)
	require.NoError(t, pgx.BeginFunc(t.Context(), k.db.Pool, func(tx pgx.Tx) error {
		got, err := k.InTx(tx).InsertMany(t.Context())
		require.Empty(t, got)
		return err
	}))
	_, err = k.Insert(t.Context(), nil)
	require.ErrorIs(t, err, tree.ErrInvalid)
}

func TestReceiptsAnswerForEachNodeInOrder(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	held := k.insert(tree.New(leaf{}, tree.Dedup("held")))
	got, err := k.InsertMany(t.Context(),
		tree.New(leaf{}),
		tree.New(sum{}).Add(tree.New(leaf{}), tree.New(sum{}).Add(tree.New(leaf{}))),
		tree.New(leaf{}, tree.Dedup("held")),
		tree.New(leaf{}),
	)
	require.NoError(t, err)
	require.Len(t, got, 4)
	require.Equal(t, engine.Receipt{ID: held.ID, Duplicate: true, IDs: []tree.ID{held.ID}}, got[2])
	for i, n := range []int{1, 4, 1, 1} {
		require.Len(t, got[i].IDs, n)
		require.Equal(t, got[i].ID, got[i].IDs[0])
		require.IsIncreasing(t, append([]tree.ID{0}, got[i].IDs...))
	}
	ids := append(got[0].IDs, 0)
	require.Equal(t, got[0].ID, ids[0])
	require.Len(t, got[1].IDs, 4)
	require.NotContains(t, got[1].IDs, tree.ID(0), "growing one receipt's ids does not reach into the next")
}

func TestARefusedNodeInsertsNothing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	_, err := k.InsertMany(t.Context(), tree.New(leaf{}), tree.New(leaf{}, tree.Queue("")))
	var invalid *tree.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, tree.InvalidError{Path: "root[1]", Kind: "leaf", Field: "queue", Problem: "is empty"}, *invalid)
	require.Zero(t, k.jobs())
}

// jobs counts the live jobs.
func (k *kit) jobs() (n int) {
	k.t.Helper()
	require.NoError(k.t, k.db.Pool.QueryRow(k.t.Context(), `SELECT count(*) FROM coppice.jobs`).Scan(&n))
	return n
}

func TestJobsOfACallersTransactionExistWhenItCommits(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	db, err := sql.Open("pgx", k.db.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	tx, err := k.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	std, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	one, err := k.InTx(tx).Insert(t.Context(), tree.New(sum{}).Add(tree.New(leaf{})))
	require.NoError(t, err)
	two, err := k.InSQLTx(std).Insert(t.Context(), tree.New(sum{}).Add(tree.New(leaf{})))
	require.NoError(t, err)
	require.Zero(t, k.jobs())
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, 2, k.jobs())
	require.NoError(t, std.Commit())
	require.Equal(t, 4, k.jobs())
	require.NotEqual(t, one.ID, two.ID)
}

// TestATreeOfAHundredThousandIsInsertedAtOnce spans queues.
func TestATreeOfAHundredThousandIsInsertedAtOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const branches, each = 100, 999
	root := tree.New(sum{})
	for b := range branches {
		branch := tree.New(sum{}, tree.Queue(fmt.Sprint("queue ", b)))
		for n := range each {
			branch.Add(tree.New(leaf{n}, tree.Queue(fmt.Sprint("queue ", n%7))))
		}
		root.Add(branch)
	}
	r := k.insert(root)
	const nodes = 1 + branches*(1+each)
	require.Len(t, r.IDs, nodes)
	require.IsIncreasing(t, r.IDs)
	require.Equal(t, nodes, k.jobs())
	row := k.await(r.ID, tree.Waiting)
	require.Equal(t, branches, row.Pending)
}

func TestAKeyIsFreeOnceItsJobHasEnded(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	engine.MustWork(k.reg, func(_ context.Context, job *engine.Job[leaf]) (int, error) {
		return 0, map[int]error{1: engine.Fatal(errors.New("no")), 2: engine.Cancel(errors.New("never mind"))}[job.Args.N]
	})
	k.work(engine.WorkerConfig{PollInterval: 50 * time.Millisecond})
	for n, end := range []tree.State{tree.Completed, tree.Dead, tree.Cancelled} {
		first := k.insert(tree.New(leaf{n}, tree.Dedup("key"), tree.Delay(time.Second)))
		require.Equal(t, first.ID, k.insert(tree.New(leaf{n}, tree.Dedup("key"))).ID)
		k.await(first.ID, end)
		second := k.insert(tree.New(leaf{0}, tree.Dedup("key"), tree.Delay(time.Millisecond)))
		require.False(t, second.Duplicate, end)
		k.await(second.ID, tree.Completed)
	}
}

// TestAJobWithAKeyIsRetriedWithoutMeetingItself fails a keyed job a hundred times.
func TestAJobWithAKeyIsRetriedWithoutMeetingItself(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const failures = 100
	starts, inserted := make(chan int, failures+1), make(chan struct{}, failures+1)
	engine.MustWork(k.reg, func(ctx context.Context, job *engine.Job[leaf]) (int, error) {
		starts <- job.Attempt
		select {
		case <-inserted:
		case <-ctx.Done():
		}
		if job.Attempt <= failures {
			return 0, errors.New("again")
		}
		return 0, nil
	})
	k.work(engine.WorkerConfig{PollInterval: 20 * time.Millisecond})
	soon := tree.WithBackoff(tree.Backoff{Base: time.Millisecond, Factor: 1, Cap: time.Millisecond})
	first := k.insert(tree.New(leaf{}, tree.Dedup("key"), tree.MaxAttempts(failures+1), soon))
	for n := range failures {
		require.Equal(t, n+1, receive(t, starts))
		if n%2 == 0 { // while it runs
			require.Equal(t, first.ID, k.insert(tree.New(leaf{}, tree.Dedup("key"))).ID)
			inserted <- struct{}{}
			continue
		}
		inserted <- struct{}{} // while its retry is written; the last attempt waits for us
		require.Equal(t, first.ID, k.insert(tree.New(leaf{}, tree.Dedup("key"))).ID)
	}
	require.Equal(t, failures+1, receive(t, starts))
	inserted <- struct{}{}
	row := k.await(first.ID, tree.Completed)
	require.Equal(t, failures+1, row.Attempt)
}
