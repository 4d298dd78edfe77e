package store

// Closing (docs/internals.md, Closing) is how a job, and all that is below it, is ended from outside: cancelled, or
// dead for a reason. `jobs.closing` says which: 'cancelled', or a tree.Reason. It is set on finalizers that wait and on jobs
// that run; everything else ends where it stands.

// closedTail takes the rows in gone, with what they became, to where they belong: cancelled ones to the history, if it
// is kept for them, and the others to the dead-letter queue. Parents move on as in a settle. closed, closed_by and
// closed_why are the closing that ended the row: its own, or its parent's.
const closedTail = `kept AS (
	INSERT INTO {s}.history (` + jobColumns + `, worker_id, state, dedup_key, error, actor)
	SELECT ` + jobColumns + `, worker_id, became, dedup_key, closed_why, closed_by
	FROM gone g
	WHERE became = 'cancelled' AND CASE WHEN keep_ms IS NULL
		THEN NOT EXISTS (SELECT FROM {s}.queues q WHERE q.name = g.queue AND q.history_retention <= interval '0') ELSE keep_ms > 0 END
), dead_lettered AS (
	INSERT INTO {s}.dead_jobs (` + jobColumns + `, worker_id, state, dedup_key, dropped_key, reason, error)
	SELECT ` + jobColumns + `, worker_id, became, NULL, dedup_key, closed, coalesce(closed_why, 'it was asked to stop')
	FROM gone WHERE became = 'dead'
), handed AS (
	INSERT INTO {s}.results (parent_id, child_id, round, kind, child_key)
	SELECT parent_id, id, coalesce(parent_round, 1), kind, child_key
	FROM gone WHERE became = 'cancelled' AND parent_id IS NOT NULL AND child_key IS NOT NULL
), used AS (
	DELETE FROM {s}.results r USING gone g WHERE g.became = 'cancelled' AND g.round > 0 AND r.parent_id = g.id
), marked AS (
	INSERT INTO {s}.marks (queue, group_key, limit_key)
	SELECT DISTINCT queue, group_key, limit_key FROM gone WHERE group_key IS NOT NULL OR limit_key IS NOT NULL
), ` + parentsSQL

// stopSQL ends attempts of jobs that were asked to stop, under their fence, as their closing says.
const stopSQL = `WITH b AS (
	SELECT * FROM unnest($1::bigint[], $2::bigint[], $4::text[], $5::text[], $6::text[])
		AS b(id, seq, new_outcome, new_error, new_stack)
), gone AS (` + takeOut + ` AND j.closing IS NOT NULL
	RETURNING j.*, CASE WHEN j.closing = 'cancelled' THEN 'cancelled' ELSE 'dead' END AS became,
		j.closing AS closed, j.closing_by AS closed_by, j.closing_why AS closed_why, b.new_outcome, b.new_error, b.new_stack
), noted AS (
	INSERT INTO {s}.job_errors (job_id, root_id, worker_id, attempt, round, outcome, error, stack)
	SELECT id, root_id, worker_id, attempt, round, new_outcome, new_error, new_stack
	FROM gone WHERE new_outcome IS NOT NULL AND became = 'dead'
), ` + closedTail + whatHappened

// endSQL ends those of some rows that are being closed, or whose parent is, that do not run and have no live children. The
// rows and their parents are locked already, in order (jobs_pkey).
const endSQL = `WITH picked AS MATERIALIZED (
	SELECT j.id,
		CASE WHEN j.closing IS NULL THEN p.closing ELSE j.closing END AS closed,
		CASE WHEN j.closing IS NULL THEN p.closing_by ELSE j.closing_by END AS closed_by,
		CASE WHEN j.closing IS NULL THEN p.closing_why ELSE j.closing_why END AS closed_why
	FROM unnest($1::bigint[]) AS u(id)
	CROSS JOIN LATERAL (SELECT * FROM {s}.jobs j WHERE j.id = u.id) j
	LEFT JOIN {s}.jobs p ON p.id = j.parent_id
	WHERE j.state <> 'running' AND j.pending = 0 AND (j.closing IS NOT NULL OR p.closing IS NOT NULL)
), gone AS (
	DELETE FROM {s}.jobs j USING picked b WHERE j.id = b.id
	RETURNING j.*, CASE WHEN b.closed = 'cancelled' THEN 'cancelled' ELSE 'dead' END AS became, b.closed, b.closed_by, b.closed_why
), ` + closedTail + `
SELECT became, NULL::text, count(*), NULL::bigint FROM gone GROUP BY became
UNION ALL SELECT NULL, queue, 0, NULL FROM live_parents WHERE queue IS NOT NULL
UNION ALL SELECT NULL, NULL, 0, id FROM gone WHERE awaited
UNION ALL SELECT DISTINCT NULL, queue, 0, NULL::bigint FROM gone WHERE group_key IS NOT NULL OR limit_key IS NOT NULL`

// handOnSQL hands the closing of parents on to those children that cannot end where they stand: they run, or have live
// children. It answers who runs them. The rows and their parents are locked already (jobs_pkey).
const handOnSQL = `
UPDATE {s}.jobs c
SET closing = p.closing, closing_by = p.closing_by, closing_why = p.closing_why
FROM unnest($1::bigint[]) AS u(id)
CROSS JOIN LATERAL (
	SELECT j.id, p.closing, p.closing_by, p.closing_why
	FROM {s}.jobs j JOIN {s}.jobs p ON p.id = j.parent_id
	WHERE j.id = u.id AND j.closing IS NULL AND p.closing IS NOT NULL AND (j.state = 'running' OR j.pending > 0)
) p
WHERE c.id = p.id
RETURNING c.id, c.worker_id`
