package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

// TestKeysOfChildrenAreLookedUpOneByOneWhateverTheStatistics guards streams that begin anew beside all the children that they
// had: a look through the parent's results for each chunk, as a generic plan, took ten seconds beside 400,000.
func TestKeysOfChildrenAreLookedUpOneByOneWhateverTheStatistics(t *testing.T) {
	t.Parallel()
	const there, chunk = 20_000, 500
	for _, analysed := range []string{"never", "when empty", "when full"} {
		t.Run(analysed, func(t *testing.T) {
			t.Parallel()
			k := newCrowd(t)
			if analysed == "when empty" {
				k.exec(`ANALYZE`)
			}
			id := k.insert(open())[0]
			k.exec(`INSERT INTO coppice.results (parent_id, child_id, round, kind, child_key)
				SELECT $1, 1000000 + i, 1, 'task', 'ended ' || i FROM generate_series(1, $2::bigint) i`, int64(id), there)
			k.exec(`INSERT INTO coppice.dead_jobs (id, root_id, parent_id, state, kind, queue, reason, child_key, args)
				SELECT 2000000 + i, $1, $1, 'dead', 'task', 'crowd', 'fatal', 'dead ' || i, '1' FROM generate_series(1, $2::bigint) i`, int64(id), there)
			k.exec(`INSERT INTO coppice.jobs (id, root_id, parent_id, state, kind, queue, child_key, args)
				SELECT 3000000 + i, $1, $1, 'ready', 'task', 'crowd', 'live ' || i, '1' FROM generate_series(1, $2::bigint) i`, int64(id), there)
			k.exec(`UPDATE coppice.jobs SET pending = $2, dead = $2 WHERE id = $1`, int64(id), there)
			k.exec(`SELECT setval('coppice.job_ids', 9000000)`)
			if analysed == "when full" {
				k.exec(`ANALYZE`)
			}
			var nodes []*tree.Node
			for i := range chunk {
				nodes = append(nodes, tree.New(task{}, tree.Key(fmt.Sprint([]string{"new ", "live ", "ended "}[i%3], 1+i))))
			}
			s, r := k.recorded()
			got, err := s.AddChildren(t.Context(), id, k.children(nodes...))
			require.NoError(t, err)
			require.Equal(t, [2]int{(chunk + 2) / 3, chunk - (chunk+2)/3}, [2]int{got.Made, got.Found})
			for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
				p := k.explain(r.sent, mode, true)["children there"]
				require.NotNil(t, p)
				requirePlan(t, p, []string{"dead_jobs_child", "jobs_child", "results_child"}, mode)
				require.Less(t, p.buffers(), 20*chunk, "pages, at three indexes and a row for each key")
			}
		})
	}
}
