package store

// Invariant is the stable name of a rule that no committed state may break.
type Invariant string

// The invariants that [Store.Check] knows. A name keeps its meaning for ever.
const (
	PendingCount   Invariant = "pending_count"   // pending is the number of live children
	DeadCount      Invariant = "dead_count"      // dead is the number of dead children
	ClosedGate     Invariant = "closed_gate"     // no finalizer runs before its children are settled
	StuckFinalizer Invariant = "stuck_finalizer" // no finalizer waits for nothing
	MissingParent  Invariant = "missing_parent"  // no live job without its parent
	StrayResult    Invariant = "stray_result"    // no result without its parent
	EarlyResult    Invariant = "early_result"    // no result of a job that has not completed
	TwoPlaces      Invariant = "two_places"      // no job in two tables
	HistoryTwice   Invariant = "history_twice"   // no job in the history twice
	RunningWorker  Invariant = "running_worker"  // running jobs, and only they, name a worker
	MissingWorker  Invariant = "missing_worker"  // and that worker has a lease
	DeadDedupKey   Invariant = "dead_dedup_key"  // no dead letter holds a dedup key
	Lineage        Invariant = "lineage"         // root and parent links agree; ancestors have lower ids
	NegativeCount  Invariant = "negative_count"  // no counter is negative
	WaitingLeaf    Invariant = "waiting_leaf"    // only finalizers wait
	ClosingState   Invariant = "closing_state"   // only waiting and running jobs close
	StrandedJob    Invariant = "stranded_job"    // no job is parked without a reason
)

// rule is one invariant with the query that finds what breaks it: rows of (job, root, detail). The queries
// run in one transaction that takes no row locks; they read whole tables in sequence and join by hash,
// and where one needs an index it says so.
type rule struct {
	invariant Invariant
	sentence  string
	sql       string
}

// gateOpen says of a row of jobs that nothing keeps its finalizer from running.
const gateOpen = `(pending = 0 AND sealed AND (dead = 0 OR on_dead = 'proceed' OR dead <= tolerate_count
	OR dead <= tolerate_ratio::numeric * (completed + dead + cancelled + removed)))`

// gateDetail is what gateOpen looked at, in words.
const gateDetail = `format('it is %s in round %s, with pending %s and %s of %s settled children dead; on_dead is %s, %s',
	state, round, pending, dead, completed + dead + cancelled + removed, on_dead,
	CASE WHEN sealed THEN 'sealed' ELSE 'not sealed' END)`

// rules lists the catalogue.
func rules(history bool) []rule {
	all := []rule{
		{PendingCount, "A parent's pending is the number of its live children.", pendingRule},
		{DeadCount, "A parent's dead is the number of its children in the dead-letter queue.", deadRule},
		{
			ClosedGate, "No job is ready, running or scheduled while a child, or the lack of a seal, keeps it from running.",
			`SELECT id AS job, root_id AS root, ` + gateDetail + ` AS detail FROM {s}.jobs
			 WHERE state IN ('ready', 'running', 'scheduled') AND NOT ` + gateOpen,
		},
		{
			StuckFinalizer, "No finalizer with nothing to wait for stays waiting.",
			`SELECT id AS job, root_id AS root, ` + gateDetail + ` AS detail FROM {s}.jobs
			 WHERE state = 'waiting' AND round > 0 AND closing IS NULL AND ` + gateOpen,
		},
		{MissingParent, "A live child's parent is live, or in the dead-letter queue.", missingParentRule},
		{StrayResult, "A result is kept only while its parent is live or in the dead-letter queue.", strayResultRule},
		{EarlyResult, "A job has a result only once it has completed.", earlyResultRule},
		{TwoPlaces, "A job is in one of jobs, dead_jobs and history.", twoPlacesRule},
		{
			RunningWorker, "A running job names a worker, and no other live job does.",
			`SELECT id AS job, root_id AS root,
			   format('it is %s and names %s', state, coalesce('worker ' || worker_id, 'no worker')) AS detail
			 FROM {s}.jobs WHERE (state = 'running') <> (worker_id IS NOT NULL)`,
		},
		{
			MissingWorker, "The worker of a running job has a row in workers.",
			`SELECT j.id AS job, j.root_id AS root, format('worker %s has no row', j.worker_id) AS detail
			 FROM {s}.jobs j LEFT JOIN {s}.workers w ON w.id = j.worker_id
			 WHERE j.worker_id IS NOT NULL AND w.id IS NULL`,
		},
		{
			DeadDedupKey, "A dead letter holds no dedup key.",
			`SELECT id AS job, root_id AS root, format('it holds the dedup key %L', dedup_key) AS detail
			 FROM {s}.dead_jobs WHERE dedup_key IS NOT NULL`,
		},
		{Lineage, "A root names itself as root; a child has its parent's root and a higher id.", lineageRule},
		{NegativeCount, "No counter is negative.", `SELECT ` + negativeColumns + ` FROM {s}.jobs WHERE ` + negative + `
			UNION ALL SELECT ` + negativeColumns + ` FROM {s}.dead_jobs WHERE ` + negative},
		{
			WaitingLeaf, "Only a finalizer waits.",
			`SELECT id AS job, root_id AS root, 'it waits in round 0, from which nothing wakes it' AS detail
			 FROM {s}.jobs WHERE state = 'waiting' AND round <= 0`,
		},
		{
			ClosingState, "Only a waiting or running job closes, to end as cancelled or dead.",
			`SELECT id AS job, root_id AS root, format('it is %s and closing as %s', state, closing) AS detail
			 FROM {s}.jobs WHERE closing IS NOT NULL
			   AND (state NOT IN ('waiting', 'running') OR closing NOT IN ('cancelled', 'fail_fast', 'never_sealed'))`,
		},
	}
	all = append(all, rule{
		StrandedJob, "A parked job is ready, and its group or limit has no room, or somebody is told to look.",
		`SELECT j.id AS job, j.root_id AS root, format('it is %s and parked, of group %L and limit %L, which have room', j.state, j.group_key, j.limit_key) AS detail
		 FROM {s}.jobs j WHERE (j.parked AND j.state <> 'ready') OR ` + strandedJob,
	})
	if history {
		all = append(all, rule{HistoryTwice, "A job is in the history once.", historyTwiceRule})
	}
	return all
}

// The children are counted once, by hash, and joined to all rows that may be parents: also those that
// count children but have none.
const (
	pendingRule = `SELECT p.id AS job, p.root_id AS root,
	   format('pending is %s, live children are %s', p.pending, coalesce(c.n, 0)) AS detail
	 FROM (SELECT id, root_id, pending FROM {s}.jobs UNION ALL SELECT id, root_id, pending FROM {s}.dead_jobs) p
	 LEFT JOIN (SELECT parent_id, count(*) AS n FROM {s}.jobs WHERE parent_id IS NOT NULL GROUP BY parent_id) c
	   ON c.parent_id = p.id
	 WHERE p.pending <> coalesce(c.n, 0)`
	deadRule = `SELECT p.id AS job, p.root_id AS root,
	   format('dead is %s, dead children are %s', p.dead, coalesce(c.n, 0)) AS detail
	 FROM (SELECT id, root_id, dead FROM {s}.jobs UNION ALL SELECT id, root_id, dead FROM {s}.dead_jobs) p
	 LEFT JOIN (SELECT parent_id, count(*) AS n FROM {s}.dead_jobs WHERE parent_id IS NOT NULL GROUP BY parent_id) c
	   ON c.parent_id = p.id
	 WHERE p.dead <> coalesce(c.n, 0)`
)

// A dead parent may have live children while it is being closed. Dead children may have lost their parent:
// they are orphans, which the dead-letter queue reports.
const missingParentRule = `SELECT c.id AS job, c.root_id AS root,
   format('parent %s is neither live nor dead', c.parent_id) AS detail
 FROM {s}.jobs c
 LEFT JOIN {s}.jobs p ON p.id = c.parent_id
 LEFT JOIN {s}.dead_jobs d ON d.id = c.parent_id
 WHERE c.parent_id IS NOT NULL AND p.id IS NULL AND d.id IS NULL`

const strayResultRule = `SELECT r.parent_id AS job, 0::bigint AS root,
   format('%s results are kept for it, but it is neither live nor dead', r.n) AS detail
 FROM (SELECT parent_id, count(*) AS n FROM {s}.results GROUP BY parent_id) r
 LEFT JOIN {s}.jobs p ON p.id = r.parent_id
 LEFT JOIN {s}.dead_jobs d ON d.id = r.parent_id
 WHERE p.id IS NULL AND d.id IS NULL`

const earlyResultRule = `SELECT j.id AS job, j.root_id AS root,
   format('parent %s has its result, but it is %s', r.parent_id, j.state) AS detail
 FROM (SELECT id, root_id, state FROM {s}.jobs UNION ALL SELECT id, root_id, state FROM {s}.dead_jobs) j
 JOIN {s}.results r ON r.child_id = j.id`

// The history may be a hundred times the size of the rest, so it is never read whole: the aggregate in
// LATERAL leaves no plan but a probe of history_id for each live or dead id (LIMIT 1 would tempt the planner
// to scan), and a probe that finds nothing, as all should, does not touch the table. What a job became it became after its creation, which spares it the
// partitions of the days before.
const twoPlacesRule = `SELECT j.id AS job, j.root_id AS root, 'it is live and in the dead-letter queue' AS detail
 FROM {s}.jobs j JOIN {s}.dead_jobs d USING (id)
UNION ALL
 SELECT j.id, j.root_id, format('it is %s and, as %s, in the history', j.state, h.state)
 FROM (SELECT id, root_id, state, created_at FROM {s}.jobs
	UNION ALL SELECT id, root_id, state, created_at FROM {s}.dead_jobs) j
 CROSS JOIN LATERAL (SELECT max(h.state) AS state FROM {s}.history h
	WHERE h.id = j.id AND h.finished_at >= j.created_at) h
 WHERE h.state IS NOT NULL`

// Reads history_id of every partition, index only where vacuum has been.
const historyTwiceRule = `SELECT h.id AS job, 0::bigint AS root, format('it is there %s times', count(*)) AS detail
 FROM {s}.history h GROUP BY h.id HAVING count(*) > 1`

// A parent in the history cannot be compared with: its row may be gone, and a dead child may be an orphan.
const lineageRule = `SELECT c.id AS job, c.root_id AS root, CASE
   WHEN c.parent_id IS NULL THEN format('it is a root, but names tree %s', c.root_id)
   WHEN c.parent_id >= c.id THEN format('its parent %s has no lower id', c.parent_id)
   ELSE format('it is of tree %s, its parent %s of tree %s', c.root_id, p.id, p.root_id) END AS detail
 FROM (SELECT id, root_id, parent_id FROM {s}.jobs UNION ALL SELECT id, root_id, parent_id FROM {s}.dead_jobs) c
 LEFT JOIN (SELECT id, root_id FROM {s}.jobs UNION ALL SELECT id, root_id FROM {s}.dead_jobs) p ON p.id = c.parent_id
 WHERE (c.parent_id IS NULL AND c.root_id <> c.id) OR c.parent_id >= c.id OR p.root_id <> c.root_id`

const (
	negative = `least(pending, completed, dead, cancelled, removed, attempt, lost, snoozes, round) < 0 OR claim_seq < 0`

	negativeColumns = `id AS job, root_id AS root, format('pending %s, completed %s, dead %s, cancelled %s, removed %s, ' ||
	'attempt %s, lost %s, snoozes %s, round %s, claim_seq %s', pending, completed, dead, cancelled, removed,
	attempt, lost, snoozes, round, claim_seq) AS detail`
)
