package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/lib/pq" // the other driver of database/sql
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// sprig is the args of most inserts.
type sprig struct {
	Name string `json:"name,omitempty"`
}

func (sprig) Kind() string { return "sprig" }

// raw is args that are written as they are.
type raw string

func (raw) Kind() string { return "raw" }

func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// intake is a kit for tests of inserts.
type intake struct{ *kit }

func newIntake(t testing.TB) *intake {
	t.Helper()
	return &intake{newKit(t)}
}

// open opens the database through database/sql.
func (in *intake) open(driver string) *sql.DB {
	in.t.Helper()
	db, err := sql.Open(driver, in.db.URL)
	require.NoError(in.t, err)
	in.t.Cleanup(func() { require.NoError(in.t, db.Close()) })
	return db
}

// over returns a store on a pool of its own, as configured.
func (in *intake) over(configure func(*pgxpool.Config)) *store.Store {
	in.t.Helper()
	config := in.db.Pool.Config()
	configure(config)
	pool, err := pgxpool.NewWithConfig(in.t.Context(), config)
	require.NoError(in.t, err)
	in.t.Cleanup(pool.Close)
	s, err := store.New(pool, in.db.Schema)
	require.NoError(in.t, err)
	return s
}

func (in *intake) count() (n int) {
	in.t.Helper()
	require.NoError(in.t, in.db.Pool.QueryRow(in.t.Context(), `SELECT count(*) FROM coppice.jobs`).Scan(&n))
	return n
}

// planOf plans nodes that are in order.
func planOf(t testing.TB, nodes ...*tree.Node) *tree.Plan {
	t.Helper()
	p, err := tree.NewPlan(nodes...)
	require.NoError(t, err)
	return p
}

// insert inserts nodes in a transaction of their own.
func (in *intake) insert(nodes ...*tree.Node) []store.Inserted {
	in.t.Helper()
	out, err := in.Insert(in.t.Context(), planOf(in.t, nodes...))
	require.NoError(in.t, err)
	return out
}

// complete ends a live job as a worker would, by hand.
func (in *intake) complete(id tree.ID) {
	in.t.Helper()
	in.exec(`DELETE FROM coppice.jobs WHERE id = $1`, int64(id))
}

// rows is what is stored of each job, a line each: every column but ids and times, which are replaced by places
// and spans.
func (in *intake) rows() []string {
	in.t.Helper()
	var columns string
	require.NoError(in.t, in.db.Pool.QueryRow(in.t.Context(), `SELECT string_agg('j.' || column_name, ', ' ORDER BY column_name)
		FROM information_schema.columns WHERE table_schema = 'coppice' AND table_name = 'jobs'
		  AND column_name NOT IN ('id', 'parent_id', 'root_id', 'run_at', 'created_at')`).Scan(&columns))
	rows, err := in.db.Pool.Query(in.t.Context(), `SELECT j.id, coalesce(j.parent_id, 0), j.root_id,
			CASE WHEN extract(year FROM j.run_at) = 2300 THEN j.run_at::text ELSE (j.run_at - j.created_at)::text END,
			ROW(`+columns+`)::text
		FROM coppice.jobs j ORDER BY j.id`)
	require.NoError(in.t, err)
	defer rows.Close()
	place := map[int64]int{}
	var out []string
	for rows.Next() {
		var id, parent, root int64
		var due, rest string
		require.NoError(in.t, rows.Scan(&id, &parent, &root, &due, &rest))
		out = append(out, "")
		place[id] = len(out) // from 1; 0 is no parent
		out[len(out)-1] = fmt.Sprintf("parent %d, root %d, due %s, %s", place[parent], place[root], due, rest)
	}
	require.NoError(in.t, rows.Err())
	return out
}

// sampler returns n nodes that between them use every option, in trees and alone. With keys some have dedup keys.
func sampler(n int, keys bool) []*tree.Node {
	var nodes []*tree.Node
	one := func(options ...tree.Option) *tree.Node {
		n--
		return tree.New(sprig{fmt.Sprint(n)}, options...)
	}
	held := 0
	keyed := func(options ...tree.Option) []tree.Option {
		if held++; keys {
			options = append(options, tree.Dedup(fmt.Sprintf(`key "%d"\, {}`, held*7919%100_003)))
		}
		return options
	}
	for n > 60 {
		root := one(keyed(tree.OnDead(tree.Proceed), tree.Queue("a queue"), tree.Delay(time.Hour))...)
		root.Add(
			one(tree.Key(`k'"\{}`), tree.Priority(-32_768)),
			one(tree.Key("NULL"), tree.Priority(32_767), tree.MaxAttempts(10_000)),
			one(tree.Tolerate(7), tree.TolerateRatio(0.1)).Add(),
			one(tree.Queue("other"), tree.Tags("NULL", `a"b\c`, "{x,y}", " lead", "木 😀", "null", "'")).Add(one(keyed(tree.OnLost(tree.LostDeadLetter))...)),
		)
		nodes = append(nodes, root,
			one(tree.Delay(1)), one(tree.Delay(time.Hour)), one(tree.Delay(tree.MaxDuration)), one(tree.Delay(1500*time.Microsecond)),
			one(tree.At(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))), one(tree.At(time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC))),
			one(tree.At(time.Date(2300, 2, 3, 4, 5, 6, 123_456_789, time.FixedZone("", 3600+45*60+7)))),
			one(tree.Timeout(tree.NoTimeout), tree.MaxAge(1)), one(tree.Timeout(time.Millisecond), tree.MaxAge(tree.MaxDuration)),
			one(tree.Timeout(1500*time.Microsecond), tree.KeepFor(0)), one(tree.KeepFor(time.Nanosecond)), one(tree.KeepFor(tree.MaxDuration)),
			one(tree.WithBackoff(tree.Backoff{})), one(tree.WithBackoff(tree.Backoff{Base: 1, Factor: 1.1, Cap: tree.MaxDuration, Jitter: 1e-40})),
			one(keyed(tree.Meta("k", `v"\'{},`+"\u2028<木>"), tree.Meta("NULL", ""))...),
		)
		for _, text := range []string{`null`, `"NULL"`, `[]`, `{"b":1.50,"a":1e400,"b":9223372036854775808}`, `"\ud83d\ude00\\u0000"`, `{"{\"":"}'$1"}`} {
			n--
			nodes = append(nodes, tree.New(raw(text), keyed()...))
		}
	}
	for n > 0 {
		nodes = append(nodes, one())
	}
	return nodes
}

// inTx runs f in a transaction of pgx and commits it.
func (in *intake) inTx(options pgx.TxOptions, f func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(in.t.Context(), in.db.Pool, options, f)
}

// inSQL runs f in a transaction of database/sql and commits it.
func inSQL(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// verbatim compares JSON byte for byte.
func verbatim(t testing.TB, want, got string) {
	t.Helper()
	require.Equal(t, want, got)
}
