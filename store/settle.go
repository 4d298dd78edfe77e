package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/coppicehq/coppice/tree"
)

// End is how an attempt ended.
type End uint8

// The ends of attempts.
const (
	EndCompleted End = iota // to the history, with Result; with an Error it was skipped, for that reason
	EndCancelled            // to the history, with Error as the reason
	EndRetry                // due again after Delay; the attempt failed with Outcome and Error
	EndSnoozed              // due again after Delay at no cost
	EndReleased             // ready again at its old place, at no cost
	EndDead                 // to the dead-letter queue, for Reason, with Outcome and Error
	EndStopped              // as the row's closing says: it was asked to stop. With an Outcome, the attempt failed on the way
)

// Ending is one ended attempt. Texts must have been through tree.CleanText.
type Ending struct {
	Fence
	ParentID    tree.ID // 0: a root
	Round       int     // of the job itself
	Queue       string  // read if there are Keys, and else for the caller alone
	Keys        Keys    // of the job
	End         End
	Result      []byte        // JSON; nil: none
	Keep        bool          // write history
	Delay       time.Duration // EndRetry, EndSnoozed
	Reason      tree.Reason   // EndDead
	Outcome     tree.Outcome  // EndRetry, EndDead, EndStopped
	Error       string
	Stack       string // "": none
	Fingerprint string
}

func (e *Ending) inTree() bool { return e.ParentID != 0 || e.Round > 0 }

// Settled is what a settle did.
type Settled struct {
	// Lost are the attempts whose fence had been passed: nothing was written for them.
	Lost []Fence
	// Woken names the queues in which something became ready, or due at a time that nobody waits for yet,
	// once each.
	Woken []string
	// Closing are the trees, ascending, of which a finalizer is being closed and may be able to end now, or has
	// just begun to: they want a [Store.Sweep].
	Closing []tree.ID
	// Ended are the jobs, ascending, that have ended and whose end somebody waits for ([Store.Await]).
	Ended []tree.ID
}

// lockSQL locks live rows by jobs_pkey in the order of the array, which is ascending: ancestors first. The
// statements that follow it have a snapshot taken behind the locks, so what they read of these rows
// is what there is.
const lockSQL = `
SELECT count(*) FROM unnest($1::bigint[]) AS u(id)
CROSS JOIN LATERAL (SELECT FROM {s}.jobs j WHERE j.id = u.id FOR UPDATE) AS l`

// lockDeadSQL does the same for parents that are dead letters; dead rows come after live ones.
const lockDeadSQL = `
SELECT count(*) FROM unnest($1::bigint[]) AS u(id)
CROSS JOIN LATERAL (SELECT FROM {s}.dead_jobs j WHERE j.id = u.id FOR UPDATE) AS l`

// The one rule for when a finalizer may run, over its row p and what a batch does to it, m: no child is pending,
// no more can come, and its policy counts the dead as settled. The ratio is compared as a numeric, for
// 0.7::real times 10 is a little less than 7.
const (
	pendingAfter = `(p.pending - m.n)`
	deadAfter    = `(p.dead + m.dead)`
	childrenAll  = `(p.pending + p.completed + p.cancelled + p.removed + p.dead)`
	tolerated    = `(` + deadAfter + ` = 0 OR p.on_dead = 'proceed' OR ` + deadAfter + ` <= p.tolerate_count
			OR ` + deadAfter + ` <= p.tolerate_ratio::numeric * ` + childrenAll + `)`
	sealedGate = `(` + pendingAfter + ` = 0 AND p.closing IS NULL AND ` + tolerated + `)` // once it is sealed
	gate       = `(p.sealed AND ` + sealedGate + `)`

	// failsFast: with this batch the finalizer gives up, and what is left of its subtree with it.
	failsFast = `(p.on_dead = 'fail' AND m.dead > 0 AND p.state = 'waiting' AND p.closing IS NULL AND NOT ` + tolerated + `)`
)

// parentsSQL lowers the counters of the parents of the rows in gone, live or dead, once each, and makes
// those ready that have nothing left to wait for. The rows are locked already, in order.
const parentsSQL = `
moved AS (
	SELECT parent_id, count(*)::integer AS n,
		(count(*) FILTER (WHERE became = 'completed'))::integer AS completed,
		(count(*) FILTER (WHERE became = 'cancelled'))::integer AS cancelled,
		(count(*) FILTER (WHERE became = 'dead'))::integer AS dead,
		min(id) FILTER (WHERE became = 'dead') AS first_dead
	FROM gone WHERE parent_id IS NOT NULL GROUP BY parent_id
), live_parents AS (
	UPDATE {s}.jobs p
	SET pending = p.pending - m.n, completed = p.completed + m.completed, cancelled = p.cancelled + m.cancelled,
		dead = p.dead + m.dead,
		stalled_at = CASE WHEN m.dead > 0 AND p.on_dead <> 'fail' AND NOT ` + tolerated + ` THEN coalesce(p.stalled_at, now())
			ELSE p.stalled_at END,
		closing = CASE WHEN ` + failsFast + ` THEN 'fail_fast' ELSE p.closing END,
		closing_why = CASE WHEN ` + failsFast + ` THEN 'job ' || m.first_dead || ' died' ELSE p.closing_why END,
		state = CASE
			WHEN p.state <> 'waiting' OR NOT ` + gate + ` THEN p.state
			WHEN p.run_at > now() THEN 'scheduled'
			ELSE 'ready' END
	FROM moved m
	WHERE p.id = m.parent_id
	RETURNING CASE WHEN p.state IN ('ready', 'scheduled') THEN p.queue END AS queue,
		CASE WHEN p.closing IS NOT NULL AND (p.pending = 0 OR m.dead > 0) THEN p.root_id END AS closing
), dead_parents AS (
	UPDATE {s}.dead_jobs p
	SET pending = p.pending - m.n, completed = p.completed + m.completed, cancelled = p.cancelled + m.cancelled,
		dead = p.dead + m.dead
	FROM moved m
	WHERE p.id = m.parent_id
)`

// whatEnded answers what was settled, as (id, claim_seq, NULL), and whose end somebody waits for, as (-1, id, NULL): few
// columns, for there is a row of them for every job.
const whatEnded = `
SELECT id, claim_seq, NULL::text FROM gone
UNION ALL SELECT -1, id, NULL FROM gone WHERE awaited`

// whatHappened adds the queues in which finalizers became ready, as (NULL, NULL, queue), and the trees that want a sweep, as
// (0, root, NULL).
const whatHappened = whatEnded + `
UNION ALL SELECT NULL, NULL, queue FROM live_parents WHERE queue IS NOT NULL
UNION ALL SELECT 0, closing, NULL FROM live_parents WHERE closing IS NOT NULL`

// takeOut removes the rows whose fence still holds, by jobs_pkey, driven by the batch in ascending id. The
// worker is compared in a way that no index serves, so that the running jobs' index is no temptation.
const takeOut = `
	DELETE FROM {s}.jobs j USING b
	WHERE j.id = b.id AND j.claim_seq = b.seq AND j.worker_id + 0 = $3::bigint`

const completeBatch = `b AS (
	SELECT * FROM unnest($1::bigint[], $2::bigint[], $4::text[], $5::text[], $6::text[], $7::boolean[])
		AS b(id, seq, became, new_result, note, keep)
), gone AS (` + takeOut + `
	RETURNING j.*, b.became, b.new_result::json AS new_result, b.note, b.keep
), kept AS (
	INSERT INTO {s}.history (` + jobColumns + `, worker_id, state, dedup_key, error, actor, result, skipped)
	SELECT ` + jobColumns + `, worker_id, became, dedup_key, note, CASE WHEN became = 'cancelled' THEN closing_by END, new_result,
		became = 'completed' AND note IS NOT NULL
	FROM gone WHERE keep
)`

// completeSQL settles jobs that stand alone: it touches no other job.
const completeSQL = `WITH ` + completeBatch + whatEnded

// completeTreeSQL settles members of trees too: results go to the parent, a finalizer's own children's
// results go away with it, and parents move on.
const completeTreeSQL = `WITH ` + completeBatch + `, handed AS (
	INSERT INTO {s}.results (parent_id, child_id, round, kind, child_key, value)
	SELECT parent_id, id, coalesce(parent_round, 1), kind, child_key, new_result
	FROM gone WHERE parent_id IS NOT NULL AND (new_result IS NOT NULL OR child_key IS NOT NULL)
), used AS (
	DELETE FROM {s}.results r USING gone g WHERE g.round > 0 AND r.parent_id = g.id
), ` + parentsSQL + whatHappened

// deadLetterSQL moves jobs whole to the dead-letter queue, with the error of the attempt that was the last. One that
// was asked to stop is stopSQL's.
const deadLetterSQL = `WITH b AS (
	SELECT * FROM unnest($1::bigint[], $2::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
		AS b(id, seq, new_reason, new_outcome, new_error, new_stack, new_fingerprint)
), gone AS (` + takeOut + ` AND j.closing IS NULL
	RETURNING j.*, 'dead'::text AS became, b.new_reason, b.new_outcome, b.new_error, b.new_stack, b.new_fingerprint
), dead_lettered AS (
	INSERT INTO {s}.dead_jobs (` + jobColumns + `, worker_id, state, dedup_key, dropped_key, reason, error, fingerprint)
	SELECT ` + jobColumns + `, worker_id, became, NULL, dedup_key, new_reason, new_error, new_fingerprint
	FROM gone
), noted AS (
	INSERT INTO {s}.job_errors (job_id, root_id, worker_id, attempt, round, outcome, error, stack)
	SELECT id, root_id, worker_id, attempt, round, new_outcome, new_error, new_stack FROM gone
), ` + parentsSQL + whatHappened

// rescheduleSQL gives jobs back to their queue: to run again later, or now, with the error that made it
// necessary if there is one. One that was asked to stop is stopSQL's.
const rescheduleSQL = `WITH b AS (
	SELECT * FROM unnest($1::bigint[], $2::bigint[], $4::bigint[], $5::integer[], $6::integer[], $7::text[], $8::text[], $9::text[])
		AS b(id, seq, delay_us, give_back, snoozed, new_outcome, new_error, new_stack)
), back AS (
	UPDATE {s}.jobs j
	SET state = CASE WHEN b.delay_us > 0 THEN 'scheduled' ELSE 'ready' END,
		run_at = CASE WHEN b.delay_us IS NULL THEN j.run_at ELSE now() + b.delay_us * interval '1 microsecond' END,
		attempt = j.attempt - b.give_back, snoozes = j.snoozes + b.snoozed, worker_id = NULL
	FROM b
	WHERE j.id = b.id AND j.claim_seq = b.seq AND j.worker_id + 0 = $3::bigint AND j.closing IS NULL
	RETURNING j.id, j.claim_seq, j.root_id, j.attempt, j.round, j.queue, j.state, b.new_outcome, b.new_error, b.new_stack
), noted AS (
	INSERT INTO {s}.job_errors (job_id, root_id, worker_id, attempt, round, outcome, error, stack)
	SELECT id, root_id, $3::bigint, attempt, round, new_outcome, new_error, new_stack
	FROM back WHERE new_outcome IS NOT NULL
)
SELECT id, claim_seq, CASE WHEN state = 'ready' THEN queue END FROM back`

// Settle ends attempts of one worker (docs/internals.md, Settle): one transaction, one round trip, however
// many there are (at most a few thousand are sensible). Locks: the batch's members of trees and their
// parents by ascending id first; jobs outside trees need no such lock when nothing else is in the batch,
// for their one statement takes them by ascending id itself. An ending whose fence has been passed is
// reported as lost and changes nothing, so a settle whose answer was lost may be sent again.
func (s *Store) Settle(ctx context.Context, worker tree.WorkerID, endings []Ending) (*Settled, error) {
	endings = slices.Clone(endings)
	slices.SortFunc(endings, func(a, b Ending) int { return cmp.Compare(a.ID, b.ID) })
	var alone, members, dead, back, stopped []Ending
	for _, e := range endings {
		switch e.End {
		case EndDead:
			dead = append(dead, e)
		case EndCompleted, EndCancelled:
			if e.inTree() {
				members = append(members, e)
			} else {
				alone = append(alone, e)
			}
		case EndStopped:
			stopped = append(stopped, e)
		default:
			back = append(back, e)
		}
	}
	if len(members) > 0 && len(alone) > 0 {
		members, alone = mergeByID(members, alone), nil
	}
	done := newSettleReader(len(endings))
	steps := append(make([]step, 0, 9), step{sql: fixedPlan, rows: done.begin})
	if len(members)+len(dead)+len(stopped) > 0 || (len(alone) > 0 && len(back) > 0) {
		rows, parents := lockOrder(endings)
		steps = append(steps, step{sql: s.lockSQL, args: []any{rows}})
		if len(parents) > 0 {
			steps = append(steps, step{sql: s.lockDeadSQL, args: []any{parents}})
		}
	}
	if len(alone) > 0 {
		steps = append(steps, step{sql: s.completeSQL, args: completeArgs(worker, alone), rows: done.read})
	}
	if len(members) > 0 {
		steps = append(steps, step{sql: s.completeTreeSQL, args: completeArgs(worker, members), rows: done.read})
	}
	if len(dead) > 0 {
		steps = append(steps, step{sql: s.deadLetterSQL, args: deadLetterArgs(worker, dead), rows: done.read})
	}
	if len(back) > 0 {
		steps = append(steps, step{sql: s.rescheduleSQL, args: rescheduleArgs(worker, back), rows: done.read})
	}
	if len(stopped) > 0 {
		steps = append(steps, step{sql: s.stopSQL, args: stopArgs(worker, stopped), rows: done.read})
	}
	if mark, marked := s.markStep(endings); marked {
		steps = append(steps, mark)
	}
	if err := s.pipe(ctx, steps...); err != nil {
		return nil, fmt.Errorf("settle %d jobs: %w", len(endings), err)
	}
	settled := done.settled(endings)
	settled.Woken = union(settled.Woken, markedQueues(endings))
	if err := s.stopInstead(ctx, worker, append(dead, back...), settled); err != nil {
		return nil, fmt.Errorf("settle %d jobs: %w", len(endings), err)
	}
	return settled, nil
}

// stopInstead ends those of the batch that could not go back or die because they had been asked to stop, which their
// worker had not heard of yet.
func (s *Store) stopInstead(ctx context.Context, worker tree.WorkerID, batch []Ending, settled *Settled) error {
	lost := make(map[Fence]struct{}, len(settled.Lost))
	for _, f := range settled.Lost {
		lost[f] = struct{}{}
	}
	batch = slices.DeleteFunc(batch, func(e Ending) bool { _, is := lost[e.Fence]; return !is })
	if len(batch) == 0 {
		return nil
	}
	slices.SortFunc(batch, func(a, b Ending) int { return cmp.Compare(a.ID, b.ID) })
	done := newSettleReader(len(batch))
	rows, parents := lockOrder(batch)
	err := s.pipe(ctx,
		step{sql: fixedPlan, rows: done.begin},
		step{sql: s.lockSQL, args: []any{rows}},
		step{sql: s.lockDeadSQL, args: []any{parents}},
		step{sql: s.stopSQL, args: stopArgs(worker, batch), rows: done.read})
	if err != nil {
		return err
	}
	settled.Lost = slices.DeleteFunc(settled.Lost, func(f Fence) bool { _, found := done.found[f]; return found })
	more := done.settled(nil)
	settled.Woken = union(settled.Woken, more.Woken)
	settled.Closing = union(settled.Closing, more.Closing)
	settled.Ended = union(settled.Ended, more.Ended)
	return nil
}

// union merges what is sorted and has nothing twice.
func union[T cmp.Ordered](a, b []T) []T {
	if len(b) == 0 {
		return a
	}
	out := append(slices.Clip(a), b...)
	slices.Sort(out)
	return slices.Compact(out)
}

// settleReader gathers what the statements of a settle report: claims that were settled, queues that woke. It
// goes by the whole fence, since a batch may hold an old claim of a job beside the newer one.
type settleReader struct {
	found   map[Fence]struct{}
	woken   map[string]struct{}
	closing map[tree.ID]struct{}
	ended   map[tree.ID]struct{}
}

func newSettleReader(n int) settleReader {
	return settleReader{found: make(map[Fence]struct{}, n), woken: map[string]struct{}{}, closing: map[tree.ID]struct{}{}, ended: map[tree.ID]struct{}{}}
}

// begin reads the first step of a try. What an earlier one reported was rolled back, and others may have
// taken those jobs since.
func (r settleReader) begin(rows pgx.Rows) error {
	clear(r.found)
	clear(r.woken)
	clear(r.closing)
	clear(r.ended)
	rows.Close()
	return rows.Err()
}

func (r settleReader) read(rows pgx.Rows) error {
	for rows.Next() {
		var id, n pgtype.Int8 // no pointers: there is a row for every job
		var queue *string
		if err := rows.Scan(&id, &n, &queue); err != nil {
			return err
		}
		switch {
		case !id.Valid:
		case id.Int64 > 0:
			r.found[Fence{ID: tree.ID(id.Int64), Seq: n.Int64}] = struct{}{}
		case id.Int64 == 0:
			r.closing[tree.ID(n.Int64)] = struct{}{}
		default:
			r.ended[tree.ID(n.Int64)] = struct{}{}
		}
		if queue != nil {
			r.woken[*queue] = struct{}{}
		}
	}
	return rows.Err()
}

func (r settleReader) settled(endings []Ending) *Settled {
	out := &Settled{}
	for _, e := range endings {
		if _, ok := r.found[e.Fence]; !ok {
			out.Lost = append(out.Lost, e.Fence)
		}
	}
	out.Woken = slices.Sorted(maps.Keys(r.woken))
	out.Closing = slices.Sorted(maps.Keys(r.closing))
	out.Ended = slices.Sorted(maps.Keys(r.ended))
	return out
}

func mergeByID(a, b []Ending) []Ending {
	out := append(a, b...)
	slices.SortFunc(out, func(a, b Ending) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// lockOrder lists the rows that a mixed batch locks first, ascending: everything in it and every parent.
func lockOrder(endings []Ending) (rows, parents []int64) {
	rows = make([]int64, 0, 2*len(endings))
	for _, e := range endings {
		rows = append(rows, int64(e.ID))
		if e.ParentID != 0 {
			parents = append(parents, int64(e.ParentID))
		}
	}
	slices.Sort(parents)
	parents = slices.Compact(parents)
	rows = append(rows, parents...)
	slices.Sort(rows)
	return slices.Compact(rows), parents
}
