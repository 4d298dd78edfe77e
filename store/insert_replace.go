package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/coppicehq/coppice/tree"
)

// replaceSQL puts specs in the place of live jobs that hold their keys, by jobs_pkey in ascending id: those that neither run nor
// are, or were, parents, and that are not being closed. They begin anew, and what they were in a group or a limit is
// marked. The parameters are those of insertText; ids are the holders'.
const replaceSQL = `WITH held AS MATERIALIZED (
	SELECT j.id, j.queue, j.group_key, j.limit_key
	FROM unnest($23::bigint[], $16::text[]) AS u(id, dedup_key)
	CROSS JOIN LATERAL (
		SELECT * FROM {s}.jobs j WHERE j.id = u.id AND j.dedup_key = u.dedup_key FOR UPDATE) j
	WHERE j.state IN ('ready', 'scheduled') AND j.round = 0 AND j.closing IS NULL
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

// replace lets the specs at these places take the place of the jobs that hold their keys, whose ids are in ids. A holder that has
// ended meanwhile frees its key, and all is tried again.
func (s *Store) replace(ctx context.Context, tx Tx, plan *tree.Plan, at []int, ids []int64, out []Inserted) error {
	if len(at) == 0 {
		return nil
	}
	// Of two specs with one key the later counts, as if they had come one after the other.
	last := make(map[int64]int, len(at))
	for _, i := range at {
		last[ids[i]] = i
	}
	at = slices.DeleteFunc(slices.Clone(at), func(i int) bool { return last[ids[i]] != i })
	slices.SortFunc(at, func(a, b int) int { return cmp.Compare(ids[a], ids[b]) })
	done := map[int64]struct{}{}
	if err := tx.query(ctx, s.sql(replaceSQL), specArgs(plan, at, ids, nil), readSet(done)); err != nil {
		return err
	}
	var left []string
	for _, i := range at {
		if _, out[i].Replaced = done[ids[i]]; !out[i].Replaced {
			left = append(left, plan.Specs[i].DedupKey)
		}
	}
	if len(left) == 0 {
		return nil
	}
	holders, err := s.holders(ctx, tx, left)
	if err == nil && len(holders) < len(left) {
		err = errKeyFreed
	}
	return err
}
