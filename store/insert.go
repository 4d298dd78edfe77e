package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// Inserted says what became of one spec of a plan.
type Inserted struct {
	ID        tree.ID
	Duplicate bool // a live job held its dedup key: ID is that job's, and nothing was inserted for the spec
	Replaced  bool // and that job has taken the spec's place (tree.Replace)
	Skipped   bool // it was left out of its tree (tree.Skip): its key is held, by ID, or that of one above it, and ID is 0
}

// bulk is the size from which a plan without dedup keys is streamed with COPY.
const bulk = 400

// chunk bounds the arrays of one INSERT.
const chunk = 5_000

// Insert writes a plan in one transaction of its own (docs/internals.md, Insert). A single job (a root
// without children) whose dedup key is held is answered with the holder's id; a tree in which a key is held
// is refused whole with [*DuplicateError]. Locks: none but the rows it makes and their unique keys, in
// ascending order of key.
func (s *Store) Insert(ctx context.Context, plan *tree.Plan) ([]Inserted, error) {
	if len(plan.Specs) == 0 {
		return nil, nil
	}
	if len(plan.Specs) >= bulk && !hasDedup(plan) {
		return s.insertBulk(ctx, plan)
	}
	if !hasDedup(plan) {
		// One statement is a transaction of its own: one round trip, and isolation does not matter to
		// rows that nobody else can know of yet.
		var out []Inserted
		err := again(ctx, func() error {
			return s.withConn(ctx, func(q querier) (err error) {
				out, err = s.insertAtOnce(ctx, q, plan)
				return err
			})
		})
		return out, wrapInsert(err)
	}
	return s.insertKeyed(ctx, plan, func(f func(Tx) error) error {
		return s.atomically(ctx, func(tx pgx.Tx) error { return f(pgxTx{tx}) })
	})
}

// InsertTx writes a plan in the caller's transaction, like [Store.Insert]; nothing is visible to workers
// before it commits. A refused plan leaves the transaction usable.
func (s *Store) InsertTx(ctx context.Context, tx Tx, plan *tree.Plan) ([]Inserted, error) {
	if len(plan.Specs) == 0 {
		return nil, nil
	}
	if hasDedup(plan) {
		out, err := s.insertKeyed(ctx, plan, func(f func(Tx) error) error { return tx.guard(ctx, f) })
		return out, snapshotTooOld(err)
	}
	var out []Inserted
	var err error
	if len(plan.Specs) <= chunk {
		out, err = s.insertAtOnce(ctx, tx, plan)
	} else {
		// A part of a plan that takes several statements must not stay behind: the caller may commit.
		err = tx.guard(ctx, func(tx Tx) (err error) {
			out, err = s.insertChunks(ctx, tx, plan, nil)
			return err
		})
	}
	if err != nil {
		return nil, wrapInsert(err)
	}
	return out, nil
}

func wrapInsert(err error) error {
	var dup *DuplicateError
	if err == nil || errors.As(err, &dup) {
		return err
	}
	return fmt.Errorf("insert jobs: %w", err)
}

// insertText is the INSERT, from arrays, one element a spec. The expressions for id, parent and root differ
// between a plan whose ids are drawn in the statement itself and one whose ids are known.
func insertText(with, id, parent, root, from, order string) string {
	return with + `
	INSERT INTO {s}.jobs (id, parent_id, root_id, state, run_at, pending, round, kind, args, queue, priority,
		max_attempts, timeout_ms, max_age_ms, backoff_base_ms, backoff_cap_ms, backoff_factor, backoff_jitter,
		dedup_key, child_key, tags, meta, keep_ms, on_dead, on_lost, parent_round,
		tolerate_count, tolerate_ratio, group_key, limit_key, deadline_at, seal_by, sealed, held, hold_below)
	SELECT ` + id + `, ` + parent + `, ` + root + `,
		CASE WHEN n.children > 0 OR n.seal_ms IS NOT NULL THEN 'waiting'
			WHEN coalesce(n.delay_ms, 0) > 0 OR n.due_at > now() THEN 'scheduled' ELSE 'ready' END,
		greatest(coalesce(n.due_at, now() + coalesce(n.delay_ms, 0) * interval '1 millisecond'), now()),
		n.children, CASE WHEN n.finalizes THEN 1 ELSE 0 END, n.kind, n.args::json, n.queue, n.priority,
		n.max_attempts, n.timeout_ms, n.max_age_ms, n.backoff_base_ms, n.backoff_cap_ms, n.backoff_factor,
		n.backoff_jitter, n.dedup_key, n.child_key, n.tags::text[], n.meta::json, n.keep_ms, n.on_dead, n.on_lost,
		n.parent_round, n.tolerate_count, n.tolerate_ratio, n.group_key, n.limit_key,
		now() + n.deadline_ms * interval '1 millisecond', now() + n.seal_ms * interval '1 millisecond',
		n.seal_ms IS NULL, $33::boolean, $33::boolean
	FROM ` + from + ` unnest($1::integer[], $2::boolean[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::bigint[],
		$8::timestamptz[], $9::integer[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::real[],
		$15::real[], $16::text[], $17::text[], $18::text[], $19::text[], $20::bigint[], $21::text[], $22::text[],
		$23::bigint[], $24::bigint[], $25::bigint[], $26::integer[], $27::integer[],
		$28::real[], $29::text[], $30::text[], $31::bigint[], $32::bigint[])
		WITH ORDINALITY AS n(children, finalizes, kind, args, queue, priority, delay_ms, due_at, max_attempts,
			timeout_ms, max_age_ms, backoff_base_ms, backoff_cap_ms, backoff_factor, backoff_jitter, dedup_key,
			child_key, tags, meta, keep_ms, on_dead, on_lost, id, parent, root, parent_round, tolerate_count,
			tolerate_ratio, group_key, limit_key, deadline_ms, seal_ms, n)` + order
}

// insertOnceSQL draws ids in the statement: parent and root are places in the plan, from 1. The ids are an
// array looked into by place, not a join, so that no plan can make it quadratic.
var insertOnceSQL = insertText(`WITH drawn AS MATERIALIZED (
		SELECT array(SELECT nextval({seq}) FROM generate_series(1, $34::integer)) AS ids
	), made AS (`, `d.ids[n.n]`, `d.ids[n.parent]`, `d.ids[n.root]`, `drawn d CROSS JOIN `,
	` RETURNING 1) SELECT d.ids FROM drawn d`)

// insertKnownSQL takes ids that were drawn before.
var insertKnownSQL = insertText(``, `n.id`, `n.parent`, `n.root`, ``, ` RETURNING id`)

const drawSQL = `SELECT array(SELECT nextval({seq}) FROM generate_series(1, $1::integer))`

// querier is the part of a Tx that runs a statement.
type querier interface {
	query(ctx context.Context, text string, args []any, rows func(scanner) error) error
}

func (s *Store) insertAtOnce(ctx context.Context, q querier, plan *tree.Plan) ([]Inserted, error) {
	args := append(specArgs(plan, places(plan), nil, nil), int32(len(plan.Specs)))
	var ids []int64
	err := q.query(ctx, s.insertOnceSQL, args, readIDs(&ids))
	if err != nil {
		return nil, err
	}
	return fresh(ids), nil
}

func (s *Store) draw(ctx context.Context, q querier, n int) ([]int64, error) {
	var ids []int64
	err := q.query(ctx, s.drawSQL, []any{int32(n)}, readIDs(&ids))
	return ids, err
}

func (s *Store) insertChunks(ctx context.Context, tx Tx, plan *tree.Plan, on *graft) ([]Inserted, error) {
	ids, err := s.draw(ctx, tx, len(plan.Specs))
	if err != nil {
		return nil, err
	}
	for part := range slices.Chunk(places(plan), chunk) {
		if err := tx.query(ctx, s.insertKnownSQL, specArgs(plan, part, ids, on), drain); err != nil {
			return nil, err
		}
	}
	return fresh(ids), nil
}

func fresh(ids []int64) []Inserted {
	out := make([]Inserted, len(ids))
	for i, id := range ids {
		out[i].ID = tree.ID(id)
	}
	return out
}

// withConn lends a connection for single statements.
func (s *Store) withConn(ctx context.Context, f func(querier) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("get a connection: %w", err)
	}
	defer conn.Release()
	return f(connQuerier{conn.Conn()})
}

type connQuerier struct{ conn *pgx.Conn }

func (c connQuerier) query(ctx context.Context, text string, args []any, read func(scanner) error) error {
	return queryPgx(ctx, c.conn, text, args, read)
}

// readIDs reads one row of one bigint[]; database/sql hands arrays over as text.
func readIDs(ids *[]int64) func(scanner) error {
	return func(rows scanner) error {
		for rows.Next() {
			if err := rows.Scan(idArray{ids}); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

func drain(rows scanner) error {
	for rows.Next() {
	}
	return rows.Err()
}

// literal writes text as an SQL string.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
