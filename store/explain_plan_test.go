package store_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

// TestExplainReadsABoundedNumberOfPagesWhateverTheStatistics runs each query of an explanation again, as a generic plan, in
// a tree of 30,000 children, and counts what it touches.
func TestExplainReadsABoundedNumberOfPagesWhateverTheStatistics(t *testing.T) {
	t.Parallel()
	const children, last = 30_000, 30_001
	for _, analysed := range []string{"never", "when empty", "when full"} {
		t.Run(analysed, func(t *testing.T) {
			t.Parallel()
			k := newCrowd(t)
			k.worker()
			if analysed == "when empty" {
				k.exec(`ANALYZE`)
			}
			k.exec(`INSERT INTO coppice.jobs (id, root_id, state, kind, queue, round, pending, held, sealed, seal_by, args)
				VALUES (1, 1, 'waiting', 'task', 'default', 1, $1, true, false, now() + interval '1 hour', '{}')`, children)
			k.exec(`INSERT INTO coppice.jobs (id, root_id, parent_id, state, kind, queue, group_key, limit_key, run_at, attempt, started_at, args)
				SELECT i, 1, 1, CASE i % 3 WHEN 0 THEN 'scheduled' ELSE 'ready' END, 'task', 'default',
					CASE i % 3 WHEN 1 THEN 'g' END, CASE i % 3 WHEN 1 THEN 'l' END, now() + (i % 3 = 0)::int * interval '1 hour', 1, now(), '{}'
				FROM generate_series(2, $1::bigint) i`, last)
			k.exec(`INSERT INTO coppice.job_errors (job_id, root_id, attempt, round, outcome, error)
				SELECT i, 1, 1, 0, 'error', 'try again' FROM generate_series(2, $1::bigint) i`, last)
			k.exec(`SELECT setval('coppice.job_ids', 1000000)`)
			if analysed == "when full" {
				k.exec(`ANALYZE`)
			}
			s, r := k.recorded()
			for _, id := range []tree.ID{1, 2, 3, 4, last - 2, last - 1, last} {
				_, err := s.Explain(t.Context(), id)
				require.NoError(t, err)
			}
			_, err := s.ExplainTree(t.Context(), last, 20)
			require.NoError(t, err)
			for name, pages := range k.pagesOf(r.sent) {
				require.Less(t, pages, 600, "pages of %s", name) // all of jobs has more than a thousand
			}
			require.Greater(t, k.number(`SELECT pg_relation_size('coppice.jobs') / 8192`), 600)
		})
	}
}

// pagesOf runs each query again, behind the settings it was sent behind, and says how many pages it touched.
func (k *kit) pagesOf(sent []statement) map[string]int {
	k.t.Helper()
	pages := map[string]int{}
	tx, err := k.db.Pool.Begin(k.t.Context())
	require.NoError(k.t, err)
	defer func() { require.NoError(k.t, tx.Rollback(k.t.Context())) }()
	for _, st := range sent {
		switch word, _, _ := strings.Cut(strings.TrimSpace(st.sql), " "); {
		case strings.HasPrefix(word, "BEGIN"), strings.EqualFold(word, "begin"), strings.EqualFold(word, "commit"):
			_, err = tx.Exec(k.t.Context(), `SAVEPOINT each; RESET ALL; SET LOCAL plan_cache_mode = force_generic_plan`)
			require.NoError(k.t, err)
			continue
		case strings.Contains(st.sql, "set_config"):
			_, err = tx.Exec(k.t.Context(), st.sql)
			require.NoError(k.t, err)
			continue
		}
		_, err = tx.Exec(k.t.Context(), "PREPARE explained AS "+st.sql)
		require.NoError(k.t, err)
		var text []byte
		require.NoError(k.t, tx.QueryRow(k.t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE explained"+literals(k.t, st.args)).Scan(&text))
		_, err = tx.Exec(k.t.Context(), "DEALLOCATE explained")
		require.NoError(k.t, err)
		var tops []struct{ Plan node }
		require.NoError(k.t, json.Unmarshal(text, &tops))
		pages[st.sql] = max(pages[st.sql], tops[0].Plan.buffers())
	}
	return pages
}
