package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/internal/testcheck"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// sorts reports whether the plan sorts anywhere.
func (p plan) sorts() bool {
	if p.Node == "Sort" || p.Node == "Incremental Sort" {
		return true
	}
	for _, sub := range p.Plans {
		if sub.sorts() {
			return true
		}
	}
	return false
}

// read is how many rows the plan's scans read, of a plan that was run.
func (p plan) read() int {
	if len(p.Plans) == 0 {
		return int(p.Rows + p.Removed)
	}
	n := 0
	for _, sub := range p.Plans {
		n += sub.read()
	}
	return n
}

// deadBase is when the first of newMorgue died.
func deadBase() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// newMorgue makes a schema of 50,000 dead letters, ten a second: nearly all of them in queue bulk, 50 in queue
// rare among the oldest, and a tree of a hundred in every thousand.
func newMorgue(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.exec(`INSERT INTO {s}.dead_jobs (id, root_id, parent_id, state, kind, queue, reason, error, args, round, dead, failed_at)
		SELECT i, CASE WHEN i % 1000 < 100 THEN i - i % 1000 ELSE i END,
			CASE WHEN i % 1000 BETWEEN 1 AND 99 THEN i - i % 1000 END, 'dead', 'k',
			CASE WHEN i < 1400 AND i % 1000 >= 350 THEN 'rare' ELSE 'bulk' END,
			'fatal', 'error ' || i, '1', (i % 1000 = 0)::int, CASE WHEN i % 1000 = 0 THEN 99 ELSE 0 END,
			timestamptz '2026-01-01 00:00Z' + (i - 1000) / 10 * interval '1 second'
		FROM generate_series(1000, 50999) i`)
	return f
}

// TestPagesOfDeadLettersWalkAnIndex holds for a table that was never analysed and for one that was, for plans that
// know their parameters and for generic ones.
func TestPagesOfDeadLettersWalkAnIndex(t *testing.T) {
	t.Parallel()
	f := newMorgue(t)
	at := func(seconds int) time.Time { return deadBase().Add(time.Duration(seconds) * time.Second) }
	middle := &store.DeadKey{FailedAt: at(2500), ID: 26005}
	lists := []struct {
		name   string
		filter store.DeadFilter
		page   store.DeadPage
		index  string
		rows   int
		read   int // at most
	}{
		{"the newest of all", store.DeadFilter{}, store.DeadPage{}, "dead_jobs_failed", 100, 101},
		{"the oldest of all", store.DeadFilter{}, store.DeadPage{OldestFirst: true}, "dead_jobs_failed", 100, 101},
		{"a page from the middle", store.DeadFilter{}, store.DeadPage{After: middle}, "dead_jobs_failed", 100, 101},
		{"and the other way", store.DeadFilter{}, store.DeadPage{After: middle, OldestFirst: true}, "dead_jobs_failed", 100, 101},
		{
			"by kind",
			store.DeadFilter{Kind: "k", Reason: tree.ReasonFatal, Text: "ERROR"},
			store.DeadPage{After: middle},
			"dead_jobs_failed", 100, 101,
		},
		{"roots", store.DeadFilter{RootsOnly: true}, store.DeadPage{After: middle}, "dead_jobs_failed", 100, 250},
		{"before a time", store.DeadFilter{FailedBefore: at(50)}, store.DeadPage{Limit: 10}, "dead_jobs_failed", 10, 11},
		{
			"before a time, from the middle",
			store.DeadFilter{FailedBefore: at(4000)},
			store.DeadPage{After: middle},
			"dead_jobs_failed", 100, 101,
		},
		{
			"after a time, from the middle",
			store.DeadFilter{FailedAfter: at(10)},
			store.DeadPage{After: middle, OldestFirst: true},
			"dead_jobs_failed", 100, 101,
		},
		{"between times", store.DeadFilter{FailedAfter: at(10), FailedBefore: at(12)}, store.DeadPage{}, "dead_jobs_failed", 20, 20},
		{"a queue of few", store.DeadFilter{Queue: "rare"}, store.DeadPage{}, "dead_jobs_queue", 50, 50},
		{"a queue of few, oldest first", store.DeadFilter{Queue: "rare"}, store.DeadPage{OldestFirst: true}, "dead_jobs_queue", 50, 50},
		{"a queue of many, from the middle", store.DeadFilter{Queue: "bulk"}, store.DeadPage{After: middle}, "dead_jobs_queue", 100, 101},
		{
			"a queue of many, the other way",
			store.DeadFilter{Queue: "bulk", FailedAfter: at(10)},
			store.DeadPage{After: middle, OldestFirst: true},
			"dead_jobs_queue", 100, 101,
		},
		{
			"a queue between times",
			store.DeadFilter{Queue: "bulk", FailedAfter: at(3000), FailedBefore: at(3002)},
			store.DeadPage{},
			"dead_jobs_queue", 20, 20,
		},
		{"a tree", store.DeadFilter{RootID: 3000}, store.DeadPage{}, "dead_jobs_tree", 100, 100},
		{"a tree in a queue", store.DeadFilter{RootID: 3000, Queue: "bulk"}, store.DeadPage{}, "dead_jobs_tree", 100, 100},
		{"a parent", store.DeadFilter{ParentID: 3000}, store.DeadPage{}, "dead_jobs_tree", 99, 99},
	}
	check := func(statistics string) {
		for _, l := range lists {
			f.watch = "dead_for" // the look-up of a parent's tree comes before
			got, _, err := f.DeadLetters(t.Context(), l.filter, l.page)
			f.watch = ""
			require.NoError(t, err)
			require.Len(t, got, l.rows, l.name)
			custom, generic := f.explainLast("ANALYZE, ")
			for mode, p := range map[string]plan{"custom": custom, "generic": generic} {
				require.Equal(t, map[string]bool{l.index: true}, p.scans(), "%s, %s, %s", l.name, statistics, mode)
				require.Equal(t, l.index == "dead_jobs_tree", p.sorts(), "%s, %s, %s: only a tree is sorted", l.name, statistics, mode)
				require.LessOrEqual(t, p.read(), l.read, "%s, %s, %s", l.name, statistics, mode)
			}
		}
	}
	check("never analysed")
	f.exec(`ANALYZE {s}.dead_jobs`)
	check("analysed")
	testcheck.AssertInvariants(t, f.Store)
}
