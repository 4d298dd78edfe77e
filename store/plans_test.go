package store_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// newCrowd makes a database in which no statistics are made but by the test: everything below would otherwise depend on
// when autovacuum comes by.
func newCrowd(t *testing.T) *kit {
	t.Helper()
	k := newKit(t)
	for _, table := range []string{"jobs", "dead_jobs", "results", "job_errors", "history_default", "queues", "workers"} {
		k.exec(`ALTER TABLE coppice.` + table + ` SET (autovacuum_enabled = false)`)
	}
	return k
}

// crowd fills a database: n ready jobs, n that are scheduled, n that are dead, each in trees of a hundred, and n results.
func (k *kit) crowd(n int) {
	k.t.Helper()
	k.exec(`
		WITH wood AS MATERIALIZED (
			SELECT i AS id, i - i % 101 AS root, nullif(i - i % 101, i) AS parent, i / 101 % 3 AS third
			FROM generate_series(1000 * 101, 1000 * 101 + 3 * $1::bigint) i
		), live AS (
			INSERT INTO coppice.jobs (id, root_id, parent_id, state, kind, queue, round, pending, run_at, args)
			SELECT id, root, parent, CASE WHEN parent IS NULL THEN 'waiting' WHEN third = 0 THEN 'ready' ELSE 'scheduled' END, 'task',
				'crowd', (parent IS NULL)::int, 0, now() + (third * (id % 7 - 3)) * interval '1 hour', '{"some": "arguments"}'
			FROM wood WHERE third < 2 OR parent IS NULL
		), dead AS (
			INSERT INTO coppice.dead_jobs (id, root_id, parent_id, state, kind, queue, reason, args)
			SELECT id, root, parent, 'dead', 'task', 'crowd', 'fatal', '1' FROM wood WHERE third = 2 AND parent IS NOT NULL
		)
		INSERT INTO coppice.results (parent_id, child_id, round, kind, value)
		SELECT root, id + 1000000, 1, 'task', '{}' FROM wood`, n)
	// The counters follow the rows: the test ends in the invariant check like every other.
	k.exec(`UPDATE coppice.jobs p SET
			pending = (SELECT count(*) FROM coppice.jobs c WHERE c.root_id = p.id AND c.parent_id = p.id),
			dead = (SELECT count(*) FROM coppice.dead_jobs c WHERE c.root_id = p.id AND c.parent_id = p.id)
		WHERE parent_id IS NULL AND queue = 'crowd'`)
	k.exec(`SELECT setval('coppice.job_ids', 9000000)`)
}

// indexes are what each statement of the hot path may read its tables by.
func indexes() map[string][]string {
	return map[string][]string{
		"claim":             {"jobs_pkey", "jobs_ready", "queues_pkey", "workers_pkey"},
		"careful":           {"jobs_keyed", "limits_retry", "marks_pkey", "queues_pkey"},
		"promote":           {"jobs_pkey", "jobs_scheduled"},
		"next due":          {"jobs_scheduled", "limits_retry", "workers_pkey"},
		"lock":              {"jobs_pkey"},
		"lock dead":         {"dead_jobs_pkey"},
		"complete":          {"jobs_pkey"},
		"complete in trees": {"dead_jobs_pkey", "jobs_pkey", "results_pkey"},
		"dead letter":       {"dead_jobs_pkey", "jobs_pkey"},
		"reschedule":        {"jobs_pkey"},
		"insert at once":    nil,
		"results":           {"results_pkey"},
		"dead children":     {"dead_jobs_tree"},
	}
}

// requirePlan expects that a plan reaches tables through the given indexes alone, always with a condition on the index,
// and joins by nested loops.
func requirePlan(t *testing.T, p *node, want []string, of string) {
	t.Helper()
	got := map[string]bool{}
	p.walk(func(n *node) {
		switch {
		case strings.Contains(n.Type, "Join"), n.Type == "Hash", n.Type == "Sort":
			t.Errorf("%s: a %s", of, n.Type)
		case n.Type == "ModifyTable" || n.Type == "LockRows" || n.Table == "":
		case n.Index == "":
			t.Errorf("%s: a %s of %s", of, n.Type, n.Table)
		case n.Cond == "":
			t.Errorf("%s: all of %s", of, n.Index)
		default:
			got[n.Index] = true
		}
	})
	require.Equal(t, want, slices.Sorted(maps.Keys(got)), of)
}

// hotPath runs every statement of the hot path once, on a queue of its own, and returns the transactions that it consisted of.
func (k *kit) hotPath(w tree.WorkerID, queue string) [][]statement {
	k.t.Helper()
	s, r := k.recorded()
	var out [][]statement
	take := func() {
		out = append(out, r.sent)
		r.sent = nil
	}
	nodes := singles(4, tree.Queue(queue))
	for range 4 {
		nodes = append(nodes, tree.New(task{}, tree.OnDead(tree.Proceed)).Add(singles(2, tree.Queue(queue))...))
	}
	trees, err := tree.NewPlan(nodes...)
	require.NoError(k.t, err)
	_, err = s.Insert(k.t.Context(), trees)
	require.NoError(k.t, err)
	take()
	request := request(w, queue, 100)
	request.Promote = true
	got, err := s.Claim(k.t.Context(), request)
	require.NoError(k.t, err)
	require.Len(k.t, got.Jobs, 12)
	take()
	var members, alone []store.Ending
	for i := range got.Jobs {
		c := &got.Jobs[i]
		if c.ParentID == 0 {
			alone = append(alone, completed(c))
			continue
		}
		later := failed(c)
		later.Delay = time.Hour
		members = append(members, []store.Ending{completed(c), dead(c), later}[i%3])
	}
	for _, batch := range [][]store.Ending{members, alone} {
		settled, err := s.Settle(k.t.Context(), w, batch)
		require.NoError(k.t, err)
		require.Empty(k.t, settled.Lost)
		take()
	}
	_, err = s.Results(k.t.Context(), 101000, 0, 5, 100)
	require.NoError(k.t, err)
	_, err = s.DeadChildren(k.t.Context(), 101000, 101000, 5, 100)
	require.NoError(k.t, err)
	take()
	return out
}

// requireHotPath runs the hot path and holds the plans of each of its statements against what is meant.
func (k *kit) requireHotPath(t *testing.T, w tree.WorkerID, statistics string) {
	t.Helper()
	seen := map[string]bool{}
	for _, sent := range k.hotPath(w, statistics) {
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			for name, p := range k.explain(sent, mode, false) {
				seen[name] = true
				requirePlan(t, p, indexes()[name], name+", "+statistics+", "+mode)
			}
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(indexes())), slices.Sorted(maps.Keys(seen)))
}

func TestTheHotPathsPlansDoNotDependOnStatistics(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	analyze := `ANALYZE coppice.jobs, coppice.dead_jobs, coppice.results, coppice.history, coppice.job_errors, coppice.queues, coppice.workers`
	t.Run("never analysed", func(t *testing.T) {
		t.Parallel()
		k := newCrowd(t)
		w := k.worker()
		k.requireHotPath(t, w, "empty and never analysed")
		k.crowd(rows)
		k.requireHotPath(t, w, "full and never analysed")
	})
	t.Run("analysed when empty", func(t *testing.T) {
		t.Parallel()
		k := newCrowd(t)
		w := k.worker()
		k.exec(analyze)
		k.crowd(rows)
		k.requireHotPath(t, w, "full and analysed when empty")
	})
	t.Run("analysed when full", func(t *testing.T) {
		t.Parallel()
		k := newCrowd(t)
		w := k.worker()
		k.crowd(rows)
		k.exec(analyze)
		k.requireHotPath(t, w, "full and analysed when full")
		k.exec(`DELETE FROM coppice.results; DELETE FROM coppice.dead_jobs WHERE queue = 'crowd'; DELETE FROM coppice.jobs WHERE queue = 'crowd'`)
		k.requireHotPath(t, w, "empty and analysed when full")
	})
	t.Run("analysed when all were running", func(t *testing.T) {
		t.Parallel()
		k := newCrowd(t)
		w := k.worker()
		k.crowd(rows)
		k.exec(`UPDATE coppice.jobs SET state = 'running', worker_id = $1 WHERE state <> 'waiting'`, int64(w))
		k.exec(analyze)
		k.requireHotPath(t, w, "all running and analysed so")
	})
}

// TestASettleTouchesPagesByItsSizeAndNotByTheTables is the guard against plans that look right and are quadratic.
func TestASettleTouchesPagesByItsSizeAndNotByTheTables(t *testing.T) {
	t.Parallel()
	const running, batch = 50_000, 1_000
	k := newCrowd(t)
	w := k.worker()
	s, r := k.recorded()
	k.exec(`INSERT INTO coppice.jobs (id, root_id, parent_id, state, kind, queue, round, pending, args)
		SELECT i, i - i % 101, nullif(i - i % 101, i), 'waiting', 'task', 'crowd', 1, 100, '{}' FROM generate_series(101, 101 * 500 + 100) i`)
	k.exec(`UPDATE coppice.jobs SET state = 'running', worker_id = $1, claim_seq = 1, attempt = 1, round = 0, pending = 0
		WHERE parent_id IS NOT NULL`, int64(w))
	require.Equal(t, running, k.number(`SELECT count(*) FROM coppice.jobs WHERE state = 'running'`))
	k.exec(`INSERT INTO coppice.jobs (id, root_id, state, kind, queue, worker_id, claim_seq, attempt, args)
		SELECT i, i, 'running', 'task', 'crowd', $1, 1, 1, '{}' FROM generate_series(100000, 101999) i`, int64(w))
	rows, err := k.db.Pool.Query(t.Context(), `SELECT id, coalesce(parent_id, 0) FROM coppice.jobs WHERE state = 'running' AND id % 17 = 3`)
	require.NoError(t, err)
	var claims []store.Claim
	for rows.Next() {
		c := store.Claim{Fence: store.Fence{Seq: 1}}
		require.NoError(t, rows.Scan(&c.ID, &c.ParentID))
		claims = append(claims, c)
	}
	require.NoError(t, rows.Err())
	shapes := map[string]struct {
		members bool
		end     func(*store.Claim) store.Ending
	}{
		"complete": {false, completed}, "complete in trees": {true, completed}, "dead letter": {true, dead}, "reschedule": {true, failed},
	}
	// Pages that a job may cost: the index and the row, the row's new place, and every index that has to
	// know of it. The tables have more than a thousand pages, so that one scan a job would be far above.
	const each = 60
	for name, shape := range shapes {
		var endings []store.Ending
		for i := range claims {
			if (claims[i].ParentID != 0) == shape.members && len(endings) < batch {
				endings = append(endings, shape.end(&claims[i]))
			}
		}
		if shape.members {
			require.Len(t, endings, batch)
		}
		// The statements are recorded from a settle under a fence to come, which changes nothing, and run with the
		// right one.
		for i := range endings {
			endings[i].Seq++
		}
		r.sent = nil
		_, err := s.Settle(t.Context(), w, endings)
		require.NoError(t, err)
		for _, st := range r.sent {
			if len(st.args) > 2 {
				seqs := make([]int64, len(endings))
				for i := range seqs {
					seqs[i] = 1
				}
				st.args[1] = seqs
			}
		}
		for step, p := range k.explain(r.sent, "force_generic_plan", true) {
			t.Logf("%s of %d: %s touches %.1f pages a job", name, len(endings), step, float64(p.buffers())/float64(len(endings)))
			require.LessOrEqual(t, p.buffers(), each*len(endings), "%s: %s", name, step)
		}
	}
}
