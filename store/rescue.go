package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// Rescued is what a rescue did.
type Rescued struct {
	Workers      int       // whose lease was over and who have no jobs left
	Retried      int       // jobs that went back to their queue
	DeadLettered int       // jobs that went to the dead-letter queue as lost
	Stopped      int       // jobs that had been asked to stop, and ended so
	Woken        []string  // queues in which something became ready
	Closing      []tree.ID // trees that want a [Store.Sweep]
	Ended        []tree.ID // jobs that ended and whose end somebody waits for
}

// rescueWorkers bounds how many workers one rescue looks at.
const rescueWorkers = 100

// silentSQL lists workers whose lease is over, and those that jobs name although they have no row: the distinct
// workers of jobs_running, found by skipping from one to the next.
const silentSQL = `
WITH RECURSIVE named AS (
	(SELECT worker_id FROM {s}.jobs WHERE state = 'running' ORDER BY worker_id LIMIT 1)
	UNION ALL
	SELECT (SELECT j.worker_id FROM {s}.jobs j WHERE j.state = 'running' AND j.worker_id > n.worker_id
		ORDER BY j.worker_id LIMIT 1)
	FROM named n WHERE n.worker_id IS NOT NULL
)
SELECT id FROM (
	(SELECT id, expires_at FROM {s}.workers WHERE expires_at < now() ORDER BY expires_at LIMIT $1::integer)
	UNION ALL
	SELECT worker_id, '-infinity' FROM named n
	WHERE worker_id IS NOT NULL AND NOT EXISTS (SELECT FROM {s}.workers w WHERE w.id = n.worker_id)
) AS silent ORDER BY expires_at LIMIT $1::integer`

// Rescue takes back the running jobs of workers whose lease is over, by the database's clock, the longest
// silent first, limit jobs a transaction (at least 1). A job goes back to its queue while its attempts last, and to
// the dead-letter queue otherwise or where its own policy says so. Many processes may rescue at once.
//
// docs/internals.md, Lease, has the protocol. A worker without a row, whose claim committed after its row
// was gone, counts as silent too.
//
// Locks: the worker's row, which is skipped when its beat or another rescue has it and in which the lease is
// looked at again; then jobs and parents in ascending id, like a settle.
func (s *Store) Rescue(ctx context.Context, limit int) (Rescued, error) {
	var total Rescued
	rows, err := s.pool.Query(ctx, s.sql(silentSQL), int32(rescueWorkers))
	if err != nil {
		return total, fmt.Errorf("rescue: %w", err)
	}
	silent, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return total, fmt.Errorf("rescue: %w", err)
	}
	var failed []error // of one worker: the others are rescued all the same
	for _, id := range silent {
		if err := s.rescueAll(ctx, tree.WorkerID(id), limit, &total); err != nil {
			failed = append(failed, fmt.Errorf("rescue from worker %d: %w", id, err))
			if !Refused(err) && !CutOff(err) {
				break // the database is away
			}
		}
	}
	slices.Sort(total.Woken)
	total.Woken = slices.Compact(total.Woken)
	slices.Sort(total.Closing)
	total.Closing = slices.Compact(total.Closing)
	return total, errors.Join(failed...)
}

// rescueAll takes back what one worker held, limit jobs a transaction, until nothing is left or others are at it. Jobs
// that the server refuses, or cuts off, are taken one by one, and what it will not take then is left behind.
func (s *Store) rescueAll(ctx context.Context, worker tree.WorkerID, limit int, total *Rescued) error {
	var after tree.ID // where to go on; above 0 in single steps
	var left error
	for {
		var one Rescued
		var last tree.ID
		err := s.atomically(ctx, func(tx pgx.Tx) (err error) {
			one, last, err = s.rescueFrom(ctx, tx, worker, limit, after)
			return err
		})
		switch {
		case err == nil && left != nil && last == 0:
			return left
		case err == nil && left != nil:
			after = last
		case err == nil:
		case last == 0 || (!Refused(err) && !CutOff(err)):
			return err
		case left == nil && limit > 1: // the first of these: go through them one by one
			left, limit = err, 1
			continue
		default:
			left, limit, after = fmt.Errorf("job %d: %w", last, err), 1, last
			continue
		}
		total.Workers += one.Workers
		total.Retried += one.Retried
		total.DeadLettered += one.DeadLettered
		total.Stopped += one.Stopped
		total.Woken = append(total.Woken, one.Woken...)
		total.Closing = append(total.Closing, one.Closing...)
		total.Ended = append(total.Ended, one.Ended...)
		if one.Workers > 0 || (left == nil && one.Retried+one.DeadLettered+one.Stopped == 0) {
			return nil
		}
	}
}

// rescueFrom is one transaction of a rescue, of jobs with ids above after. It answers the last of them, 0 for none, also
// when it fails.
func (s *Store) rescueFrom(ctx context.Context, tx pgx.Tx, worker tree.WorkerID, limit int, after tree.ID) (out Rescued, last tree.ID, err error) {
	// The row is locked if it is there and silent still; if it is not there, nobody can renew it.
	var silent bool
	err = tx.QueryRow(ctx, s.sql(`
		WITH mine AS MATERIALIZED (
			SELECT FROM {s}.workers WHERE id = $1::bigint AND expires_at < now() FOR UPDATE SKIP LOCKED)
		SELECT EXISTS (SELECT FROM mine) OR NOT EXISTS (SELECT FROM {s}.workers WHERE id = $1::bigint)`),
		int64(worker)).Scan(&silent)
	if err != nil || !silent {
		return out, 0, err
	}
	endings, err := s.lostBy(ctx, tx, worker, limit, after)
	if err != nil {
		return out, 0, err
	}
	if len(endings) > 0 {
		last = endings[len(endings)-1].ID
		if err := s.settleLost(ctx, tx, worker, endings, &out); err != nil {
			return out, last, err
		}
	}
	if len(endings) == limit || after > 0 {
		return out, last, nil // there may be more: the worker's row stays until they are back
	}
	out.Workers = 1
	_, err = tx.Exec(ctx, s.sql(`DELETE FROM {s}.workers WHERE id = $1::bigint`), int64(worker))
	return out, last, err
}

// lostBy reads what a silent worker holds, by jobs_running, and decides for each row by the row alone.
func (s *Store) lostBy(ctx context.Context, tx pgx.Tx, worker tree.WorkerID, limit int, after tree.ID) ([]Ending, error) {
	rows, err := tx.Query(ctx, s.sql(`
		SELECT id, claim_seq, coalesce(parent_id, 0), round, attempt >= max_attempts OR on_lost = 'dead_letter', closing IS NOT NULL,
			queue, coalesce(group_key, ''), coalesce(limit_key, '')
		FROM {s}.jobs WHERE state = 'running' AND worker_id = $1::bigint AND id > $3::bigint ORDER BY id LIMIT $2::integer`),
		int64(worker), int32(limit), int64(after))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Ending, error) {
		e := Ending{End: EndRetry, Outcome: tree.OutcomeLost, Error: fmt.Sprintf("worker %d died: its lease ran out while it held the job", worker)}
		var give, stopped bool
		err := row.Scan(&e.ID, &e.Seq, &e.ParentID, &e.Round, &give, &stopped, &e.Queue, &e.Keys.Group, &e.Keys.Limit)
		switch {
		case stopped:
			e.End = EndStopped
		case give:
			e.End, e.Reason = EndDead, tree.ReasonLost
		}
		return e, err
	})
}

// settleLost ends the attempts as a settle of the dead worker would have.
func (s *Store) settleLost(ctx context.Context, tx pgx.Tx, worker tree.WorkerID, endings []Ending, out *Rescued) error {
	done := newSettleReader(len(endings))
	locked, parents := lockOrder(endings)
	ids, _ := fenceArgs(endings)
	var dead, back []Ending
	for _, e := range endings {
		switch e.End {
		case EndDead:
			dead = append(dead, e)
		case EndStopped:
		default:
			back = append(back, e)
		}
	}
	steps := []step{
		{sql: fixedPlan},
		{sql: s.lockSQL, args: []any{locked}},
		{sql: s.lockDeadSQL, args: []any{parents}},
		{sql: s.sql(`UPDATE {s}.jobs SET lost = lost + 1 WHERE id = ANY ($1::bigint[]) AND worker_id = $2::bigint`), args: []any{ids, int64(worker)}},
		{sql: s.deadLetterSQL, args: deadLetterArgs(worker, dead), rows: done.read},
		{sql: s.rescheduleSQL, args: rescheduleArgs(worker, back), rows: done.read},
		// What was asked to stop ends so, also if it was asked since its row was read.
		{sql: s.stopSQL, args: stopArgs(worker, endings), rows: done.read},
	}
	if mark, marked := s.markStep(endings); marked {
		steps = append(steps, mark)
	}
	for _, st := range steps {
		rows, err := tx.Query(ctx, st.sql, st.args...)
		if err != nil {
			return err
		}
		if st.rows != nil {
			err = st.rows(rows)
		}
		rows.Close()
		if err == nil {
			err = rows.Err()
		}
		if err != nil {
			return err
		}
	}
	settled := done.settled(endings)
	out.Closing, out.Ended = settled.Closing, settled.Ended
	// Their queues are looked at all the same: one that is limited has room now.
	for _, e := range endings {
		settled.Woken = append(settled.Woken, e.Queue)
	}
	slices.Sort(settled.Woken)
	out.Woken = slices.Compact(settled.Woken)
	for _, e := range endings {
		if _, ok := done.found[e.Fence]; !ok {
			continue
		}
		switch e.End {
		case EndDead:
			out.DeadLettered++
		case EndStopped:
			out.Stopped++
		default:
			out.Retried++
		}
	}
	return nil
}
