package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/coppicehq/coppice/tree"
)

// replaceable says which live jobs may be replaced: those that neither run nor are, or were, parents, and that are not being
// closed.
const replaceable = `state IN ('ready', 'scheduled') AND round = 0 AND closing IS NULL`

// lockReplacedSQL finds the jobs that hold some keys and may be replaced (jobs_dedup), and locks them by jobs_pkey in
// ascending id. It comes before the insert takes any key: rows of jobs are locked first, as a fan-out does that takes keys for
// the children of such a job. Others are left alone, so that nobody's settle waits for a caller's transaction.
const lockReplacedSQL = `
SELECT l.id FROM (SELECT id FROM {s}.jobs WHERE dedup_key = ANY ($1::text[]) AND ` + replaceable + ` ORDER BY id) u
CROSS JOIN LATERAL (SELECT id FROM {s}.jobs j WHERE j.id = u.id AND ` + replaceable + ` FOR UPDATE) l`

// lockReplaced locks what the plan may replace, and answers the ids.
func (s *Store) lockReplaced(ctx context.Context, tx Tx, plan *tree.Plan) (map[int64]struct{}, error) {
	var keys []string
	for i := range plan.Specs {
		if plan.Specs[i].OnDuplicate == tree.Replace && plan.Specs[i].DedupKey != "" {
			keys = append(keys, plan.Specs[i].DedupKey)
		}
	}
	locked := map[int64]struct{}{}
	if len(keys) == 0 {
		return locked, nil
	}
	return locked, tx.query(ctx, s.sql(lockReplacedSQL), []any{keys}, readSet(locked))
}

// replaceSQL puts specs in the place of live jobs that hold their keys, which are locked, by jobs_pkey. They begin anew, and
// what they were in a group or a limit is marked. The parameters are those of insertText; ids are the holders'.
const replaceSQL = `WITH held AS MATERIALIZED (
	SELECT j.id, j.queue, j.group_key, j.limit_key
	FROM unnest($23::bigint[]) AS u(id) CROSS JOIN LATERAL (SELECT * FROM {s}.jobs j WHERE j.id = u.id LIMIT 1) j
), replaced AS (
	UPDATE {s}.jobs j SET
		state = CASE WHEN coalesce(n.delay_ms, 0) > 0 OR n.due_at > now() THEN 'scheduled' ELSE 'ready' END,
		run_at = greatest(coalesce(n.due_at, now() + coalesce(n.delay_ms, 0) * interval '1 millisecond'), now()),
		kind = n.kind, args = n.args::json, queue = n.queue, priority = n.priority, max_attempts = n.max_attempts,
		timeout_ms = n.timeout_ms, max_age_ms = n.max_age_ms, backoff_base_ms = n.backoff_base_ms, backoff_cap_ms = n.backoff_cap_ms,
		backoff_factor = n.backoff_factor, backoff_jitter = n.backoff_jitter, tags = n.tags::text[], meta = n.meta::json,
		keep_ms = n.keep_ms, on_dead = n.on_dead, on_lost = n.on_lost, tolerate_count = n.tolerate_count,
		tolerate_ratio = n.tolerate_ratio, group_key = n.group_key, limit_key = n.limit_key,
		deadline_at = now() + n.deadline_ms * interval '1 millisecond',
		claim_seq = j.claim_seq + 1, attempt = 0, lost = 0, snoozes = 0, age_from = now(), parked = false,
		progress = NULL, checkpoint = NULL
	FROM held h JOIN unnest($1::integer[], $2::boolean[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::bigint[],
		$8::timestamptz[], $9::integer[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::real[],
		$15::real[], $16::text[], $17::text[], $18::text[], $19::text[], $20::bigint[], $21::text[], $22::text[],
		$23::bigint[], $24::bigint[], $25::bigint[], $26::integer[], $27::integer[],
		$28::real[], $29::text[], $30::text[], $31::bigint[], $32::bigint[])
		AS n(children, finalizes, kind, args, queue, priority, delay_ms, due_at, max_attempts,
			timeout_ms, max_age_ms, backoff_base_ms, backoff_cap_ms, backoff_factor, backoff_jitter, dedup_key,
			child_key, tags, meta, keep_ms, on_dead, on_lost, id, parent, root, parent_round, tolerate_count,
			tolerate_ratio, group_key, limit_key, deadline_ms, seal_ms) ON n.id = h.id
	WHERE j.id = h.id AND $33::boolean IS NOT NULL
	RETURNING j.id
), marked AS (
	INSERT INTO {s}.marks (queue, group_key, limit_key)
	SELECT DISTINCT queue, group_key, limit_key FROM held WHERE group_key IS NOT NULL OR limit_key IS NOT NULL
)
SELECT id FROM replaced`

// keptSQL counts the live jobs that hold some keys, and those of them that may be replaced. By jobs_dedup, without locks.
const keptSQL = `
SELECT count(*), count(*) FILTER (WHERE ` + replaceable + `) FROM {s}.jobs WHERE dedup_key = ANY ($1::text[])`

// replace lets the specs at these places take the place of the jobs that hold their keys, whose ids are in ids, as far as ours
// has them: they are locked, or the insert made them itself. All is tried again if a holder has ended meanwhile, which
// frees its key, or came, or may be replaced by now, and was not locked in its turn.
func (s *Store) replace(ctx context.Context, tx Tx, plan *tree.Plan, at []int, ids []int64, ours map[int64]struct{}, out []Inserted) error {
	// Of two specs with one key the later counts, as if they had come one after the other.
	last := make(map[int64]int, len(at))
	for _, i := range at {
		last[ids[i]] = i
	}
	var kept []string
	at = slices.DeleteFunc(slices.Clone(at), func(i int) bool {
		_, mine := ours[ids[i]]
		if last[ids[i]] == i && !mine {
			kept = append(kept, plan.Specs[i].DedupKey)
		}
		return last[ids[i]] != i || !mine
	})
	slices.SortFunc(at, func(a, b int) int { return cmp.Compare(ids[a], ids[b]) })
	if len(at) > 0 {
		done := map[int64]struct{}{}
		if err := tx.query(ctx, s.sql(replaceSQL), specArgs(plan, at, ids, nil), readSet(done)); err != nil {
			return err
		}
		for _, i := range at {
			_, out[i].Replaced = done[ids[i]]
		}
	}
	if len(kept) == 0 {
		return nil
	}
	var there, may int
	err := tx.query(ctx, s.sql(keptSQL), []any{kept}, func(rows scanner) error {
		for rows.Next() {
			if err := rows.Scan(&there, &may); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err == nil && (there < len(kept) || may > 0) {
		err = errKeyFreed
	}
	return err
}
