package engine_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// What docs/semantics.md says about PgBouncer rests on this: no statement needs to be prepared.
func TestATreeRunsInEveryExecModeWithoutListening(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			config, err := pgxpool.ParseConfig(k.db.URL)
			require.NoError(t, err)
			config.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			k.Client, err = engine.NewClient(pool, engine.ClientConfig{})
			require.NoError(t, err)
			totals := sums(k)
			k.work(engine.WorkerConfig{PollOnly: true})
			k.insert(tree.New(sum{}).Add(tree.New(leaf{1}, tree.Tags("a"), tree.Meta("b", "c"), tree.Dedup("d")), tree.New(leaf{2})))
			require.Equal(t, 3, receive(t, totals))
			root := tree.New(sum{})
			for range 500 { // by COPY
				root.Add(tree.New(leaf{2}))
			}
			r := k.insert(root)
			require.Equal(t, 1_000, receive(t, totals))
			k.await(r.ID, tree.Completed)
		})
	}
}
