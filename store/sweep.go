package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// sweepChunk bounds the rows of one transaction of a sweep.
const sweepChunk = 2_000

// Swept is what a sweep did.
type Swept struct {
	Cancelled    int // jobs that went to the history
	DeadLettered int // jobs that went to the dead-letter queue
	Stopping     int // running jobs that were asked to stop
	// Woken are the queues in which something became ready, ascending.
	Woken []string
	// Workers are those who run jobs that were asked to stop; they have been told, by a hint.
	Workers []tree.WorkerID
	// Ended are the jobs that have ended and whose end somebody waits for ([Store.Await]).
	Ended []tree.ID
}

// Add adds what another sweep did.
func (s *Swept) Add(more Swept) {
	s.Cancelled += more.Cancelled
	s.DeadLettered += more.DeadLettered
	s.Stopping += more.Stopping
	s.Woken = union(s.Woken, slices.Sorted(slices.Values(more.Woken)))
	s.Workers = union(s.Workers, slices.Sorted(slices.Values(more.Workers)))
	s.Ended = append(s.Ended, more.Ended...)
}

// Sweep carries on what closes in a tree (docs/internals.md, Closing), as far as it can now: what does not run below a
// closing finalizer ends, what runs is asked to stop, and a closing finalizer without live children ends. It
// works in transactions of at most a few thousand rows, may be interrupted and begun again at any time, and may
// run in several processes at once. Errors are the database's, with what was done before in Swept.
func (s *Store) Sweep(ctx context.Context, root tree.ID) (Swept, error) {
	var total Swept
	err := s.sweep(ctx, root, &total)
	s.tell(ctx, total.Workers)
	if err != nil {
		return total, fmt.Errorf("sweep tree %d: %w", root, err)
	}
	return total, nil
}

func (s *Store) sweep(ctx context.Context, root tree.ID, total *Swept) error {
	for {
		was := *total
		if err := s.sweepDown(ctx, root, total); err != nil {
			return err
		}
		if err := s.sweepUp(ctx, root, total); err != nil {
			return err
		}
		// What ended may have made a finalizer further up give up in its turn.
		if total.Cancelled+total.DeadLettered == was.Cancelled+was.DeadLettered {
			return nil
		}
	}
}

// sweepDown visits every child of a closing finalizer once, and the children of those that it marks. None can be
// added meanwhile: a closing finalizer takes no more, and a job that was asked to stop cannot fan out.
func (s *Store) sweepDown(ctx context.Context, root tree.ID, total *Swept) error {
	parents, err := s.ids(ctx, closingParentsSQL, int64(root))
	for after := int64(0); err == nil && len(parents) > 0; {
		batch := parents[:min(len(parents), sweepChunk)]
		from := make([]int64, len(batch))
		from[0] = after
		var children, marked []int64
		var reached int
		if children, reached, err = s.openChildren(ctx, root, batch, from); err != nil {
			break
		}
		if len(children) < sweepChunk {
			parents, after = parents[len(batch):], 0
		} else {
			parents, after = parents[reached:], children[len(children)-1]
		}
		if len(children) > 0 {
			marked, err = s.closeRows(ctx, children, nil, total)
			parents = append(parents, marked...)
		}
	}
	return err
}

// sweepUp ends closing finalizers without live children: descending, so that children end before their parents.
func (s *Store) sweepUp(ctx context.Context, root tree.ID, total *Swept) error {
	for before := int64(0); ; {
		chunk, err := s.ids(ctx, closingRowsSQL, int64(root), before, int32(sweepChunk))
		if err != nil || len(chunk) == 0 {
			return err
		}
		before = chunk[len(chunk)-1]
		for {
			endable, err := s.ids(ctx, endableSQL, chunk)
			if err != nil {
				return err
			}
			if len(endable) == 0 {
				break // or they ended, by others' hands
			}
			if _, err := s.closeRows(ctx, endable, nil, total); err != nil {
				return err
			}
		}
	}
}

// openChildren lists children of closing finalizers that are not closing, in the order of the parents and by id, above the
// ids in from; and the place of the parent that the last of them is of.
func (s *Store) openChildren(ctx context.Context, root tree.ID, parents, from []int64) (children []int64, reached int, err error) {
	err = s.pipe(ctx, step{sql: fixedPlan}, step{
		sql: s.sql(openChildrenSQL), args: []any{int64(root), parents, from, int32(sweepChunk)},
		rows: func(rows pgx.Rows) error {
			children = nil
			var n, id int64
			_, err := pgx.ForEachRow(rows, []any{&n, &id}, func() error {
				children, reached = append(children, id), int(n-1)
				return nil
			})
			return err
		},
	})
	return children, reached, err
}

const (
	// closingParentsSQL reads by jobs_closing.
	closingParentsSQL = `
		SELECT id FROM {s}.jobs WHERE root_id = $1::bigint AND closing IS NOT NULL AND state = 'waiting' AND pending > 0 ORDER BY id`
	// openChildrenSQL reads by jobs_tree, driven by the array: its order is that of the answer.
	openChildrenSQL = `
		SELECT u.n, c.id
		FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY AS u(parent, above, n)
		CROSS JOIN LATERAL (
			SELECT c.id FROM {s}.jobs c
			WHERE c.root_id = $1::bigint AND c.parent_id = u.parent AND c.id > u.above AND c.closing IS NULL
			ORDER BY c.id LIMIT $4::integer) c
		LIMIT $4::integer`
	// closingRowsSQL reads by jobs_closing, backwards. 0: from the end.
	closingRowsSQL = `
		SELECT id FROM {s}.jobs
		WHERE root_id = $1::bigint AND closing IS NOT NULL AND state <> 'running'
			AND id < CASE WHEN $2::bigint = 0 THEN 9223372036854775807 ELSE $2::bigint END
		ORDER BY id DESC LIMIT $3::integer`
	// endableSQL reads by jobs_pkey.
	endableSQL = `
		SELECT u.id FROM unnest($1::bigint[]) AS u(id)
		CROSS JOIN LATERAL (SELECT FROM {s}.jobs j WHERE j.id = u.id AND j.pending = 0 AND j.state <> 'running') j`
)

// ids runs a query for ids under the fixed plan, which keeps it on the index that it is written for.
func (s *Store) ids(ctx context.Context, sql string, args ...any) (ids []int64, err error) {
	err = s.pipe(ctx, step{sql: fixedPlan}, step{sql: s.sql(sql), args: args, rows: func(rows pgx.Rows) (err error) {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	}})
	return ids, err
}

// closing says what becomes of some rows, and all that is below them, and who says so.
type closing struct {
	as     string // 'cancelled', or a tree.Reason
	action string // as the audit calls it
	by     By     // without an actor: the engine itself
	seeds  []int64
}

// closeRows ends what can end of some rows, and marks what cannot and whose parent closes; with start, the seeds
// among the rows are closed first, and the other rows are what is below them. It answers the finalizers that were marked. One transaction; locks: the rows and their
// live parents by ascending id, then parents that are dead letters.
func (s *Store) closeRows(ctx context.Context, rows []int64, start *closing, total *Swept) (marked []int64, err error) {
	rows = slices.Sorted(slices.Values(rows))
	parents, err := s.ids(ctx, parentsOfSQL, rows)
	if err != nil {
		return nil, err
	}
	done := newSettleReader(len(rows))
	var got Swept
	workers := map[tree.WorkerID]struct{}{}
	told := func(rows pgx.Rows) error {
		var id int64
		var worker *int64
		_, err := pgx.ForEachRow(rows, []any{&id, &worker}, func() error {
			if worker == nil {
				marked = append(marked, id)
				return nil
			}
			got.Stopping++
			workers[tree.WorkerID(*worker)] = struct{}{}
			return nil
		})
		return err
	}
	steps := []step{
		{sql: fixedPlan, rows: func(r pgx.Rows) error {
			marked, got = nil, Swept{}
			clear(workers)
			return done.begin(r)
		}},
		{sql: s.lockSQL, args: []any{union(rows, parents)}},
		{sql: s.lockDeadSQL, args: []any{parents}},
	}
	if start != nil {
		steps = append(steps, step{sql: s.sql(startSQL), args: []any{
			rows, start.as, orNull(start.by.Actor), orNull(start.by.Reason), start.action, start.seeds,
		}, rows: told})
	}
	steps = append(steps,
		step{sql: s.sql(handOnSQL), args: []any{rows}, rows: told},
		step{sql: s.endSQL, args: []any{rows}, rows: func(r pgx.Rows) error {
			return done.readEnded(r, &got)
		}})
	if err := s.pipe(ctx, steps...); err != nil {
		return nil, err
	}
	got.Woken, got.Workers = done.settled(nil).Woken, slices.Collect(maps.Keys(workers))
	total.Add(got)
	return marked, nil
}

// parentsOfSQL reads by jobs_pkey.
const parentsOfSQL = `
SELECT DISTINCT j.parent_id FROM unnest($1::bigint[]) AS u(id)
CROSS JOIN LATERAL (SELECT parent_id FROM {s}.jobs j WHERE j.id = u.id AND parent_id IS NOT NULL) j
ORDER BY 1`

// startSQL closes the seeds among some rows and marks what is below them, by jobs_pkey and jobs_tree, down to what is
// closing already: the first who says so wins, there and below. Whatever does not run and has no live children ends in the same transaction. The rows are
// locked already; what was overdue may have been put off since.
const startSQL = `WITH RECURSIVE below AS (
	SELECT j.id, j.root_id
	FROM unnest($6::bigint[]) AS u(id)
	CROSS JOIN LATERAL (SELECT * FROM {s}.jobs j WHERE j.id = u.id) j
	WHERE j.closing IS NULL AND CASE $5::text
		WHEN 'deadline' THEN j.deadline_at <= now()
		WHEN 'never_sealed' THEN NOT j.sealed AND j.seal_by <= now()
		ELSE true END
	UNION ALL
	SELECT c.id, c.root_id
	FROM below b JOIN {s}.jobs c ON c.root_id = b.root_id AND c.parent_id = b.id
	WHERE c.closing IS NULL AND c.id = ANY ($1::bigint[])
), started AS (
	UPDATE {s}.jobs j SET closing = $2::text, closing_by = $3::text, closing_why = $4::text
	FROM below b
	WHERE j.id = b.id AND (j.state = 'running' OR j.pending > 0 OR j.id = ANY ($6::bigint[]))
	RETURNING j.id, j.root_id, j.worker_id
), noted AS (
	INSERT INTO {s}.audit (root_id, job_id, action, actor, reason)
	SELECT root_id, id, $5::text, coalesce($3::text, 'coppice'), $4::text FROM started WHERE id = ANY ($6::bigint[])
)
SELECT id, worker_id FROM started`

// readEnded reads what endSQL answers: how many rows ended, and the queues in which parents became ready.
func (r settleReader) readEnded(rows pgx.Rows, into *Swept) error {
	var became, queue *string
	var n int
	var ended *int64
	_, err := pgx.ForEachRow(rows, []any{&became, &queue, &n, &ended}, func() error {
		switch {
		case ended != nil:
			into.Ended = append(into.Ended, tree.ID(*ended))
		case queue != nil:
			r.woken[*queue] = struct{}{}
		case *became == string(tree.Cancelled):
			into.Cancelled += n
		default:
			into.DeadLettered += n
		}
		return nil
	})
	return err
}
