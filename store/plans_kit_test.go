package store_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
)

// scribe is a tracer that remembers every statement with its parameters.
type scribe struct {
	mu   sync.Mutex // protects following fields
	sent []statement
}

func (r *scribe) add(sql string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, statement{sql, args})
}

func (r *scribe) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	r.add(q.SQL, q.Args)
	return ctx
}

func (r *scribe) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *scribe) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (r *scribe) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	r.add(q.SQL, q.Args)
}

func (r *scribe) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// recorded returns the store on a connection whose statements are remembered.
func (k *kit) recorded() (*store.Store, *scribe) {
	k.t.Helper()
	config, err := pgxpool.ParseConfig(k.db.URL)
	require.NoError(k.t, err)
	r := &scribe{}
	config.MaxConns, config.ConnConfig.Tracer = 1, r
	pool, err := pgxpool.NewWithConfig(k.t.Context(), config)
	require.NoError(k.t, err)
	k.t.Cleanup(pool.Close)
	s, err := store.New(pool, k.db.Schema)
	require.NoError(k.t, err)
	return s, r
}

// node is what EXPLAIN says of one step of a plan.
type node struct {
	Type     string `json:"Node Type"`
	Table    string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Cond     string `json:"Index Cond"`
	SubPlan  string `json:"Subplan Name"`
	Hit      int    `json:"Shared Hit Blocks"`
	Read     int    `json:"Shared Read Blocks"`
	Children []node `json:"Plans"`
}

// walk visits a plan.
func (n *node) walk(visit func(*node)) {
	visit(n)
	for i := range n.Children {
		n.Children[i].walk(visit)
	}
}

// buffers is how many pages a plan touched, from above: what a CTE touched is counted for it and for whoever reads it.
func (n *node) buffers() int {
	total := n.Hit + n.Read
	n.walk(func(sub *node) {
		if strings.HasPrefix(sub.SubPlan, "CTE ") {
			total += sub.Hit + sub.Read
		}
	})
	return total
}

// literals writes parameters as EXECUTE takes them.
func literals(t testing.TB, args []any) string {
	t.Helper()
	if len(args) == 0 {
		return ""
	}
	types := pgtype.NewMap()
	words := make([]string, len(args))
	for i, a := range args {
		kind, ok := types.TypeForValue(a)
		require.True(t, ok, "%T", a)
		text, err := types.Encode(kind.OID, pgtype.TextFormatCode, a, nil)
		require.NoError(t, err)
		words[i] = "NULL"
		if text != nil {
			words[i] = "'" + strings.ReplaceAll(string(text), "'", "''") + "'"
		}
	}
	return "(" + strings.Join(words, ", ") + ")"
}

// explain explains each statement of a transaction that was recorded, under the settings that the transaction made for
// itself, with the plan_cache_mode given; with analyze it also runs them, and takes them back.
func (k *kit) explain(sent []statement, mode string, analyze bool) map[string]*node {
	k.t.Helper()
	plans := map[string]*node{}
	tx, err := k.db.Pool.Begin(k.t.Context())
	require.NoError(k.t, err)
	defer func() { require.NoError(k.t, tx.Rollback(context.WithoutCancel(k.t.Context()))) }()
	_, err = tx.Exec(k.t.Context(), "SET LOCAL plan_cache_mode = "+mode)
	require.NoError(k.t, err)
	for _, st := range sent {
		name := store.StatementName(k.Store, st.sql)
		switch {
		case name == "" && strings.HasPrefix(st.sql, "SELECT set_config"):
			_, err = tx.Exec(k.t.Context(), st.sql)
			require.NoError(k.t, err)
			continue
		case name == "":
			continue // BEGIN and the like
		}
		_, err = tx.Exec(k.t.Context(), "PREPARE explained AS "+st.sql)
		require.NoError(k.t, err)
		how := "EXPLAIN (FORMAT JSON) "
		if analyze {
			how = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "
		}
		var text []byte
		require.NoError(k.t, tx.QueryRow(k.t.Context(), how+"EXECUTE explained"+literals(k.t, st.args)).Scan(&text))
		_, err = tx.Exec(k.t.Context(), "DEALLOCATE explained")
		require.NoError(k.t, err)
		var tops []struct{ Plan node }
		require.NoError(k.t, json.Unmarshal(text, &tops))
		plans[name] = &tops[0].Plan
	}
	return plans
}
