package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// environment is a way in which other people's databases differ from ours.
type environment struct {
	name  string
	setUp string // SQL, as the database's owner, before the first connection of the engine
	shows string // a setting, and what it then is, so that no environment passes because it is not there
	pool  func(*pgxpool.Config)
}

func environments() []environment {
	mode := func(m pgx.QueryExecMode) func(*pgxpool.Config) {
		return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = m }
	}
	sequences := func(at int64) string {
		return fmt.Sprintf(`ALTER SEQUENCE coppice.job_ids RESTART WITH %[1]d; ALTER SEQUENCE coppice.worker_ids RESTART WITH %[1]d`, at)
	}
	return []environment{
		{name: "the defaults"},
		{
			name: "repeatable read", setUp: `ALTER DATABASE {database} SET default_transaction_isolation = 'repeatable read'`,
			shows: "transaction_isolation = repeatable read",
		},
		{
			name: "serializable", setUp: `ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'`,
			shows: "transaction_isolation = serializable",
		},
		{
			name: "plans that never know their parameters", setUp: `ALTER DATABASE {database} SET plan_cache_mode = 'force_generic_plan'`,
			shows: "plan_cache_mode = force_generic_plan",
		},
		{
			name: "a time zone and formats of its own", setUp: `ALTER DATABASE {database} SET timezone = 'Asia/Kathmandu';
			ALTER DATABASE {database} SET datestyle = 'SQL, DMY'; ALTER DATABASE {database} SET intervalstyle = 'sql_standard';
			ALTER DATABASE {database} SET bytea_output = 'escape'; ALTER DATABASE {database} SET extra_float_digits = 0`,
			shows: "timezone = Asia/Kathmandu",
		},
		{name: "a search path without coppice and public", setUp: `ALTER DATABASE {database} SET search_path = ''`, shows: `search_path = ""`},
		{name: "the extended protocol without preparing", pool: mode(pgx.QueryExecModeExec)},
		{name: "the simple protocol", pool: mode(pgx.QueryExecModeSimpleProtocol)},
		{name: "descriptions that are asked for each time", pool: mode(pgx.QueryExecModeDescribeExec)},
		{name: "descriptions that are cached", pool: mode(pgx.QueryExecModeCacheDescribe)},
		{name: "ids beyond 31 bits", setUp: sequences(1<<31 - 2)},
		{name: "ids beyond 53 bits", setUp: sequences(1 << 53)},
		{name: "one connection", pool: func(c *pgxpool.Config) { c.MaxConns = 1 }},
	}
}

// newKitIn is newKit in an environment.
func newKitIn(t testing.TB, e environment) *kit {
	t.Helper()
	db := testdb.New(t)
	if e.setUp != "" {
		sql := strings.ReplaceAll(e.setUp, "{database}", pgx.Identifier{db.Name}.Sanitize())
		_, err := db.Pool.Exec(t.Context(), sql)
		require.NoError(t, err)
		db.Pool.Reset()
	}
	config, err := pgxpool.ParseConfig(db.URL)
	require.NoError(t, err)
	config.MaxConns = 8
	config.ConnConfig.RuntimeParams["application_name"] = t.Name()
	if e.pool != nil {
		e.pool(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	if setting, value, ok := strings.Cut(e.shows, " = "); ok {
		var got string
		require.NoError(t, pool.QueryRow(t.Context(), "SHOW "+setting).Scan(&got))
		require.Equal(t, value, got)
	}
	return newKitOn(t, db, pool)
}

// awkward is text that every layer between Go and the disk may spoil.
const awkward = `it's "quoted" \ back\\slash {braces} $1 -- ; é 漢字 🌳 <&>`

// mood is a job that ends as its Act says.
type mood struct {
	Act  string
	Text string
}

func (mood) Kind() string { return "mood" }

func moods(k *kit) {
	engine.MustWork(k.reg, func(_ context.Context, job *engine.Job[mood]) (mood, error) {
		switch err := errors.New(job.Args.Text); job.Args.Act {
		case "fatal":
			return mood{}, engine.Fatal(err)
		case "cancel":
			return mood{}, engine.Cancel(err)
		case "panic":
			panic(job.Args.Text)
		case "flaky":
			if job.Attempt < 3 {
				return mood{}, engine.RetryAfter(time.Millisecond, err)
			}
		case "late":
			if job.Attempt == 1 {
				return mood{}, engine.RetryAfter(0, err)
			}
		case "hopeless":
			return mood{}, err
		}
		return job.Args, nil
	})
}

func TestTheCoreWorksUnder(t *testing.T) {
	t.Parallel()
	for _, e := range environments() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			requireTheCore(t, newKitIn(t, e), engine.WorkerConfig{PollInterval: 50 * time.Millisecond})
		})
	}
}

// requireTheCore does a little of everything.
func requireTheCore(t *testing.T, k *kit, config engine.WorkerConfig) {
	t.Helper()
	totals := sums(k)
	moods(k)
	insertsOfEveryKind(t, k)
	k.work(config)
	bulk := 0
	for n := range 450 {
		bulk += n
	}
	got := []int{receive(t, totals), receive(t, totals), receive(t, totals), receive(t, totals)}
	require.ElementsMatch(t, []int{1, 5, 13, bulk}, got)
	endsOfEveryKind(t, k)
	readsOfEveryKind(t, k)
}

// insertsOfEveryKind inserts sums of 1 (in a transaction of pgx), 5 (alone), 13 (in one of database/sql), and of 0 to 449
// (with COPY).
func insertsOfEveryKind(t *testing.T, k *kit) {
	t.Helper()
	ctx := t.Context()
	pool := k.Store().Pool()
	k.insert(tree.New(leaf{1}, tree.Delay(time.Hour), tree.Dedup("held"), tree.Tags("a", `b "c" \d,{}`), tree.Meta(awkward, awkward),
		tree.MaxAge(time.Hour), tree.KeepFor(0), tree.WithBackoff(tree.Backoff{Base: time.Millisecond}), tree.Timeout(time.Minute)))
	again, err := k.Insert(ctx, tree.New(leaf{1}, tree.Dedup("held")))
	require.NoError(t, err)
	require.True(t, again.Duplicate)
	_, err = k.Insert(ctx, tree.New(sum{}).Add(tree.New(leaf{1}, tree.Dedup("held"))))
	require.ErrorAs(t, err, new(*engine.DuplicateError))

	five := tree.New(sum{}).Add(tree.New(leaf{2}, tree.Priority(tree.MinPriority), tree.Key("two")), tree.New(leaf{3}, tree.Priority(tree.MaxPriority)))
	many, err := k.InsertMany(ctx, five, tree.New(leaf{7}), tree.New(leaf{8}, tree.Dedup("new")))
	require.NoError(t, err)
	require.Len(t, many, 3)

	require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := k.InTx(tx).Insert(ctx, tree.New(sum{}).Add(tree.New(leaf{1}, tree.Tags("a"), tree.Meta("k", awkward))))
		return err
	}))
	db := stdlib.OpenDBFromPool(pool)
	defer func() { require.NoError(t, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	_, err = k.InSQLTx(tx).InsertMany(ctx, tree.New(sum{}).Add(tree.New(leaf{6}, tree.Tags("a", awkward)), tree.New(leaf{7}, tree.Meta("k", awkward))),
		tree.New(mood{Text: awkward}, tree.Dedup("sql"), tree.At(time.Now().Add(-time.Hour))))
	require.NoError(t, err)
	held, err := k.InSQLTx(tx).Insert(ctx, tree.New(leaf{1}, tree.Dedup("held"), tree.At(time.Now().Add(time.Hour))))
	require.NoError(t, err)
	require.True(t, held.Duplicate)
	require.NoError(t, tx.Commit())

	bulk := tree.New(sum{})
	for n := range 450 {
		bulk.Add(tree.New(leaf{n}, tree.Tags("t", fmt.Sprint(n)), tree.Meta("n", awkward), tree.Key(fmt.Sprint(n))))
	}
	r := k.insert(bulk)
	require.Len(t, r.IDs, 451)
	require.Less(t, r.ID, r.IDs[1])
}

// endsOfEveryKind lets jobs end in every way, and looks at what was written.
func endsOfEveryKind(t *testing.T, k *kit) {
	t.Helper()
	fast := tree.WithBackoff(tree.Backoff{Base: time.Millisecond})
	act := func(act string, options ...tree.Option) *tree.Node {
		return tree.New(mood{Act: act, Text: awkward}, append(options, fast)...)
	}
	r := k.insert(tree.New(sum{}, tree.OnDead(tree.Wait)).Add(
		act(""), act("fatal", tree.Dedup("fatal")), act("cancel"), act("panic", tree.MaxAttempts(2)), act("flaky"), act("late"),
		act("hopeless", tree.MaxAttempts(2)), act("hopeless", tree.MaxAge(time.Nanosecond)),
	))
	want := []tree.State{
		tree.Completed, tree.Dead, tree.Cancelled, tree.Dead, tree.Completed, tree.Completed, tree.Dead, tree.Dead,
	}
	for i, state := range want {
		row := k.await(r.IDs[i+1], state)
		require.Contains(t, string(row.Args), jsonOf(t, awkward), "the args are the bytes that were inserted")
		if state == tree.Dead {
			require.Contains(t, row.Error, awkward)
		}
	}
	require.Equal(t, "fatal", k.await(r.IDs[2], tree.Dead).DroppedKey)
	require.Equal(t, tree.ReasonAgeSpent, k.await(r.IDs[8], tree.Dead).Reason)
	stalled := k.await(r.ID, tree.Waiting)
	require.Equal(t, store.Counters{Completed: 3, Dead: 4, Cancelled: 1}, stalled.Counters)
	require.NotNil(t, stalled.StalledAt)

	kept, err := k.Store().Results(t.Context(), r.ID, 0, 0, 100)
	require.NoError(t, err)
	require.Len(t, kept, 3)
	require.JSONEq(t, jsonOf(t, mood{Text: awkward}), string(kept[0].Value))
	dead, err := k.Store().DeadChildren(t.Context(), r.ID, r.ID, 0, 100)
	require.NoError(t, err)
	require.Len(t, dead, 4)
	failures, err := k.Store().Errors(t.Context(), r.IDs[4], 0)
	require.NoError(t, err)
	require.Len(t, failures, 2)
	require.NotEmpty(t, failures[0].Stack)
}

// readsOfEveryKind runs the queries that people look through.
func readsOfEveryKind(t *testing.T, k *kit) {
	t.Helper()
	ctx, s := t.Context(), k.Store()
	trees, _, err := s.Trees(ctx, store.TreeFilter{Finished: true, Queue: tree.DefaultQueue, Kind: "sum"})
	require.NoError(t, err)
	require.Len(t, trees, 5)
	stalled, _, err := s.Trees(ctx, store.TreeFilter{StalledOnly: true})
	require.NoError(t, err)
	require.Len(t, stalled, 1)
	kids, _, err := s.Children(ctx, stalled[0].RootID, stalled[0].RootID, 0, 3)
	require.NoError(t, err)
	require.Len(t, kids, 3)
	counts, err := s.TreeCounts(ctx, stalled[0].RootID)
	require.NoError(t, err)
	require.EqualValues(t, 4, counts.States[tree.Dead])
	queues, err := s.Queues(ctx)
	require.NoError(t, err)
	require.Len(t, queues, 1)
	require.EqualValues(t, 4, queues[0].Dead)
	workers, err := s.Workers(ctx)
	require.NoError(t, err)
	require.Len(t, workers, 1)
	require.Equal(t, []string{"leaf", "mood", "sum"}, workers[0].Kinds)
	_, err = s.Rescue(ctx, 10)
	require.NoError(t, err)
	_, err = s.EnsureHistory(ctx)
	require.NoError(t, err)
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}
