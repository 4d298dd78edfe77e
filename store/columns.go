package store

// jobColumns are the columns that jobs, dead_jobs and history share, less the four that change when a job
// moves from one to another: worker_id, state, dedup_key, and the time of the move.
const jobColumns = `id, root_id, parent_id, claim_seq, run_at, created_at, started_at, age_from, stalled_at,
	deadline_at, seal_by, timeout_ms, max_age_ms, backoff_base_ms, backoff_cap_ms, keep_ms,
	pending, completed, dead, cancelled, removed, attempt, max_attempts, lost, snoozes, round, parent_round,
	tolerate_count, tolerate_ratio, backoff_factor, backoff_jitter, progress, priority, sealed, held,
	hold_below, queue, kind, on_dead, on_lost, closing, closing_by, closing_why, child_key, group_key, limit_key, effect, tags, meta, trace,
	checkpoint, args`
