package store_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// plan is what EXPLAIN says of one node.
type plan struct {
	Node  string `json:"Node Type"`
	Table string `json:"Relation Name"`
	Index string `json:"Index Name"`
	Plans []plan `json:"Plans"`

	// Only of a plan that was run: how many rows the node gave, and how many it read in vain.
	// From PostgreSQL 18 on they are averages of the node's loops, with fractions.
	Rows    float64 `json:"Actual Rows"`
	Removed float64 `json:"Rows Removed by Filter"`
}

// scans lists how a plan reads its tables: the index where there is one, "seq scan of" and the table otherwise.
// A partition's index counts as the partitioned table's.
func (p plan) scans() map[string]bool {
	out := map[string]bool{}
	switch index := p.name(); {
	case index != "":
		out[index] = true
	case p.Node == "Bitmap Heap Scan" && p.Plans[0].name() == "history_id":
		// One id has one row, whatever the planner believes: a bitmap of it is as good as the index.
	case p.Table != "":
		out[strings.ToLower(p.Node)+" of "+p.Table] = true
	}
	for _, sub := range p.Plans {
		maps.Copy(out, sub.scans())
	}
	return out
}

// name is the node's index. PostgreSQL names a partition's indexes after the partition and the columns.
func (p plan) name() string {
	columns, ok := strings.CutPrefix(p.Index, "history_")
	if !ok {
		return p.Index
	}
	_, columns, _ = strings.Cut(columns, "_")
	switch columns {
	case "id_idx":
		return "history_id"
	case "id_idx1":
		return "history_roots"
	case "root_id_parent_id_id_idx":
		return "history_tree"
	}
	return p.Index
}

// planOfLast explains the query that the store sent last, behind what it sent before it in the same transaction,
// with the parameters' values known and as a generic plan.
func (f *fixture) planOfLast() (custom, generic plan) {
	f.t.Helper()
	return f.explainLast("")
}

// explainLast is planOfLast with more options of EXPLAIN, each with a comma behind.
func (f *fixture) explainLast(options string) (custom, generic plan) {
	f.t.Helper()
	last := f.last.Load()
	require.NotNil(f.t, last)
	sent := *last
	if len(sent) > 1 { // begin, settings, query, commit
		sent = sent[1 : len(sent)-1]
	}
	return f.explain(sent, options, "force_custom_plan"), f.explain(sent, options, "force_generic_plan")
}

// explain explains the last of the statements behind the others.
func (f *fixture) explain(sent []statement, options, mode string) plan {
	f.t.Helper()
	query := sent[len(sent)-1]
	call := ""
	if len(query.args) > 0 {
		values := make([]string, len(query.args))
		for i, a := range query.args {
			values[i] = constant(a)
		}
		call = "(" + strings.Join(values, ", ") + ")"
	}
	tx, err := f.Pool().Begin(f.t.Context())
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, tx.Rollback(f.t.Context())) }()
	for _, before := range sent[:len(sent)-1] {
		_, err = tx.Exec(f.t.Context(), before.sql, before.args...)
		require.NoError(f.t, err)
	}
	_, err = tx.Exec(f.t.Context(), "SET LOCAL plan_cache_mode = "+mode)
	require.NoError(f.t, err)
	_, err = tx.Exec(f.t.Context(), "PREPARE explained AS "+query.sql)
	require.NoError(f.t, err)
	var text []byte
	ask := "EXPLAIN (" + options + "FORMAT JSON) EXECUTE explained" + call
	require.NoError(f.t, tx.QueryRow(f.t.Context(), ask).Scan(&text))
	_, err = tx.Exec(f.t.Context(), "DEALLOCATE explained")
	require.NoError(f.t, err)
	var tops []struct{ Plan plan }
	require.NoError(f.t, json.Unmarshal(text, &tops))
	return tops[0].Plan
}

// constant writes a parameter as SQL.
func constant(a any) string {
	switch a := a.(type) {
	case time.Time:
		return "'" + a.Format(time.RFC3339Nano) + "'"
	case []string:
		return "'{" + strings.Join(a, ",") + "}'"
	}
	return fmt.Sprintf("'%v'", a)
}

// newWood makes a schema of some 50,000 rows: trees of a hundred, whose children are live, dead and finished by
// turns, one tree of 20,000, jobs that stand alone, and a history of four partitions.
func newWood(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.exec(`
		CREATE TABLE {s}.history_a PARTITION OF {s}.history FOR VALUES FROM ('2026-01-01') TO ('2026-01-02');
		CREATE TABLE {s}.history_b PARTITION OF {s}.history FOR VALUES FROM ('2026-01-02') TO ('2026-01-03');
		CREATE TABLE {s}.history_c PARTITION OF {s}.history FOR VALUES FROM ('2026-01-03') TO ('2026-01-04');
		CREATE TEMP TABLE wood AS
			SELECT i AS id, i - i % 100 AS root, nullif(i - i % 100, i) AS parent FROM generate_series(100, 29999) i
			UNION ALL SELECT i, 30000, nullif(30000, i) FROM generate_series(30000, 49999) i;
		INSERT INTO {s}.jobs (id, root_id, parent_id, state, kind, queue, round, pending, args)
			SELECT id, root, parent, CASE WHEN parent IS NULL THEN 'waiting' ELSE 'ready' END, 'k', 'q',
				(parent IS NULL)::int, 0, '{"some":"arguments"}' FROM wood WHERE id % 3 = 0 OR parent IS NULL;
		INSERT INTO {s}.dead_jobs (id, root_id, parent_id, state, kind, queue, reason, args)
			SELECT id, root, parent, 'dead', 'k', 'q', 'fatal', '1' FROM wood WHERE id % 3 = 1 AND parent IS NOT NULL;
		INSERT INTO {s}.history (id, root_id, parent_id, state, kind, queue, args, finished_at)
			SELECT id, root, parent, 'completed', 'k', 'q', '1', timestamptz '2026-01-01' + id % 4 * interval '1 day'
			FROM wood WHERE id % 3 = 2 AND parent IS NOT NULL;
		INSERT INTO {s}.jobs (id, root_id, state, kind, queue, args)
			SELECT i, i, 'ready', 'k', 'q', '1' FROM generate_series(50000, 54999) i;
		INSERT INTO {s}.job_errors (job_id, root_id, attempt, round, outcome, error)
			SELECT id, root, 1, 0, 'error', 'e' FROM wood WHERE id % 5 = 0;
		UPDATE {s}.jobs SET dead = 1, stalled_at = now() WHERE id IN (100, 5000, 30000);
		DROP TABLE wood`)
	return f
}

// TestReadsUseTheirIndexes holds for tables that were never analysed and for those that were, for plans that know
// their parameters and for generic ones.
func TestReadsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	f := newWood(t)
	reads := []struct {
		name string
		run  func() error
		want []string
	}{
		{
			"a job", func() error { _, err := f.Job(t.Context(), 303); return err },
			[]string{"jobs_pkey", "dead_jobs_pkey", "history_id"},
		},
		{
			"a job's errors", func() error { _, err := f.Errors(t.Context(), 305, 10); return err },
			[]string{"job_errors_job"},
		},
		{"a page of a small tree's children", func() error {
			_, _, err := f.Children(t.Context(), 300, 300, 310, 10)
			return err
		}, []string{"jobs_tree", "dead_jobs_tree", "history_tree", "job_errors_job"}},
		{"a page of a large tree's children", func() error {
			_, _, err := f.Children(t.Context(), 30000, 30000, 40000, 100)
			return err
		}, []string{"jobs_tree", "dead_jobs_tree", "history_tree", "job_errors_job"}},
		{
			"the counts of a tree", func() error { _, err := f.TreeCounts(t.Context(), 30000); return err },
			[]string{"jobs_pkey", "dead_jobs_pkey", "history_id", "jobs_tree", "dead_jobs_tree", "history_tree"},
		},
		{"a page of trees", func() error {
			_, _, err := f.Trees(t.Context(), store.TreeFilter{Finished: true, After: tree.ID(20000)})
			return err
		}, []string{"jobs_roots", "dead_jobs_roots", "history_roots", "jobs_stalled", "dead_jobs_tree"}},
		{"a page of stalled trees", func() error {
			_, _, err := f.Trees(t.Context(), store.TreeFilter{StalledOnly: true, After: tree.ID(20000)})
			return err
		}, []string{"jobs_stalled", "jobs_pkey", "dead_jobs_tree"}},
	}
	check := func(statistics string) {
		for _, r := range reads {
			require.NoError(t, r.run())
			custom, generic := f.planOfLast()
			for kind, p := range map[string]plan{"custom": custom, "generic": generic} {
				got := p.scans()
				for scan := range got {
					require.NotContains(t, scan, " of ", "%s, %s, %s plan: %v", r.name, statistics, kind, got)
				}
				for _, index := range r.want {
					require.Contains(t, got, index, "%s, %s, %s plan", r.name, statistics, kind)
				}
				require.Len(t, got, len(r.want), "%s, %s, %s plan: %v", r.name, statistics, kind, got)
			}
		}
	}
	check("never analysed")
	f.exec(`ANALYZE {s}.jobs, {s}.dead_jobs, {s}.history, {s}.job_errors`)
	check("analysed")
}

func TestCheckProbesTheHistoryByItsIndex(t *testing.T) {
	t.Parallel()
	f := newWood(t)
	probe := func(statistics string) {
		f.watch = "h.finished_at >= j.created_at"
		_, err := f.Check(t.Context(), store.CheckOptions{})
		require.NoError(t, err)
		f.watch = ""
		custom, generic := f.planOfLast()
		for kind, p := range map[string]plan{"custom": custom, "generic": generic} {
			got := p.scans()
			require.Contains(t, got, "history_id", "%s, %s plan", statistics, kind)
			for scan := range got {
				require.NotContains(t, scan, " of history", "%s, %s plan", statistics, kind)
			}
		}
	}
	probe("never analysed")
	f.exec(`ANALYZE {s}.jobs, {s}.dead_jobs, {s}.history`)
	probe("analysed")
}
