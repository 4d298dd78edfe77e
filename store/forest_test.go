package store_test

import "testing"

// worker runs the forest's running jobs.
const worker = 7

// newForest makes a schema with a tree of every legal shape, so that an invariant that is too strict shows.
func newForest(t testing.TB) *fixture {
	t.Helper()
	f := newFixture(t)
	f.exec(`INSERT INTO {s}.queues (name, paused_at, paused_by) VALUES ('q', NULL, NULL), ('idle', now(), 'ann');
		INSERT INTO {s}.workers (id, expires_at, pid, name, host, queues, kinds)
		VALUES (7, now() + interval '1 minute', 1, 'w', 'h', '{q}', '{k}')`)

	// Stalled: a dead child, beside a ready, a running and a completed one.
	f.put("jobs", row{"id": 1, "state": "waiting", "round": 1, "pending": 2, "completed": 1, "dead": 1})
	f.exec(`UPDATE {s}.jobs SET stalled_at = now() - interval '1 hour' WHERE id = 1`)
	f.put("jobs", row{"id": 2, "root_id": 1, "parent_id": 1})
	f.put("jobs", row{"id": 3, "root_id": 1, "parent_id": 1, "state": "running", "worker_id": worker, "attempt": 1})
	f.put("history", row{"id": 4, "root_id": 1, "parent_id": 1, "child_key": "four"})
	f.put("dead_jobs", row{"id": 5, "root_id": 1, "parent_id": 1, "error": "no such file"})
	f.put("results", row{"parent_id": 1, "child_id": 4, "round": 1, "kind": "k", "value": "4"})

	// Two levels, with a leaf that backs off.
	f.put("jobs", row{"id": 10, "state": "waiting", "round": 1, "pending": 1})
	f.put("jobs", row{"id": 11, "root_id": 10, "parent_id": 10, "state": "waiting", "round": 2, "pending": 1})
	f.put("jobs", row{"id": 12, "root_id": 10, "parent_id": 11, "state": "scheduled", "attempt": 1})

	// Finalizers that run in spite of dead children: by policy, by count and by share.
	f.put("jobs", row{"id": 20, "round": 1, "completed": 1, "dead": 1, "on_dead": "proceed"})
	f.put("dead_jobs", row{"id": 21, "root_id": 20, "parent_id": 20})
	f.put("jobs", row{"id": 22, "round": 1, "dead": 1, "tolerate_count": 1, "state": "running", "worker_id": worker})
	f.put("dead_jobs", row{"id": 23, "root_id": 22, "parent_id": 22})
	f.put("jobs", row{"id": 24, "round": 1, "dead": 1, "cancelled": 1, "tolerate_ratio": 0.5, "state": "scheduled"})
	f.put("dead_jobs", row{"id": 25, "root_id": 24, "parent_id": 24})
	f.put("history", row{"id": 26, "root_id": 24, "parent_id": 24, "state": "cancelled"})

	// Dead with its child; and dead while a child still runs.
	f.put("dead_jobs", row{"id": 40, "round": 1, "completed": 1, "dead": 1})
	f.put("dead_jobs", row{"id": 41, "root_id": 40, "parent_id": 40})
	f.put("results", row{"parent_id": 40, "child_id": 42, "round": 1, "kind": "k", "value": "{}"})
	f.put("dead_jobs", row{"id": 45, "round": 1, "pending": 1})
	f.put("jobs", row{"id": 46, "root_id": 45, "parent_id": 45, "state": "running", "worker_id": worker})

	// Not sealed yet; and closing, once with its last child settled already.
	f.put("jobs", row{"id": 50, "state": "waiting", "round": 1, "sealed": false})
	f.put("jobs", row{"id": 60, "state": "waiting", "round": 1, "closing": "cancelled", "pending": 1})
	f.put("jobs", row{"id": 61, "root_id": 60, "parent_id": 60, "state": "running", "worker_id": worker, "closing": "cancelled"})
	f.put("jobs", row{"id": 65, "state": "waiting", "round": 1, "closing": "fail_fast"})

	// An orphan, whose parent completed without it.
	f.put("history", row{"id": 70, "round": 1, "dead": 1, "on_dead": "proceed"})
	f.put("dead_jobs", row{"id": 71, "root_id": 70, "parent_id": 70})

	// Jobs that stand alone.
	f.put("jobs", row{"id": 80, "dedup_key": "d"})
	f.put("jobs", row{"id": 81, "held": true})
	f.put("jobs", row{"id": 82, "state": "scheduled", "queue": "later"})
	f.exec(`UPDATE {s}.jobs SET run_at = now() + interval '1 hour' WHERE id = 82`)
	f.put("history", row{"id": 83, "dedup_key": "d"})
	f.put("dead_jobs", row{"id": 84, "dropped_key": "d"})
	return f
}
