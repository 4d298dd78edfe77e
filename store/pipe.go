package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// step is one statement of a pipelined transaction.
type step struct {
	sql  string
	args []any
	// rows reads the statement's rows; nil for none. It may run again when the transaction is tried
	// again, so it must begin by forgetting what it read before.
	rows func(pgx.Rows) error
}

// fixedPlan (docs/internals.md, The fixed plan) leaves the planner one way to run the statements of the hot
// path: nested loops that are driven by the batch and reach the tables through an index. The statistics of
// a queue table are always stale (it was empty when it was analysed, or full), and a prepared statement
// keeps the plan that they gave it; a hash join over the table or a scan by another index would then be
// chosen for a batch of a thousand, and cost a hundred times as much. The settings end with the
// transaction, so that they work behind a transaction pooler. jit goes off because the planner's penalty
// for what is forbidden counts as cost, and cost is what switches jit on.
const fixedPlan = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
	set_config('enable_mergejoin', 'off', true), set_config('enable_bitmapscan', 'off', true),
	set_config('enable_sort', 'off', true), set_config('jit', 'off', true)`

// notDurable lets the commit return before its WAL is on disk.
const notDurable = `SELECT set_config('synchronous_commit', 'off', true)`

// begin sets the isolation that the protocols are written for, whatever the database's default is.
const begin = `BEGIN ISOLATION LEVEL READ COMMITTED`

// maxTries bounds how often a transaction that lost a deadlock or a serialization race is tried again.
const maxTries = 8

// pipe runs the steps in one READ COMMITTED transaction, sent in one go: one round trip. Rows are read to
// the end, and the commit's answer awaited, before it returns. A deadlock or a serialization failure is
// tried again; any other error leaves the outcome unknown when the connection broke, and rolled back
// otherwise.
func (s *Store) pipe(ctx context.Context, steps ...step) error {
	return again(ctx, func() error { return s.pipeOnce(ctx, steps) })
}

// again runs f until it has not lost a deadlock or a serialization race.
func again(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if err == nil || try >= maxTries || !Retryable(err) {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

func (s *Store) pipeOnce(ctx context.Context, steps []step) (err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("get a connection: %w", err)
	}
	defer conn.Release()
	var batch pgx.Batch
	batch.Queue(begin)
	for _, st := range steps {
		batch.Queue(st.sql, st.args...)
	}
	batch.Queue("COMMIT")
	results := conn.SendBatch(ctx, &batch)
	if err = readSteps(results, steps); err == nil {
		if err = results.Close(); err == nil {
			return nil
		}
	} else {
		_ = results.Close() // it repeats the error that we have
	}
	rollback(conn)
	return err
}

func readSteps(results pgx.BatchResults, steps []step) error {
	if _, err := results.Exec(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for _, st := range steps {
		if st.rows == nil {
			if _, err := results.Exec(); err != nil {
				return err
			}
			continue
		}
		rows, err := results.Query()
		if err != nil {
			return err
		}
		err = st.rows(rows)
		rows.Close()
		if err == nil {
			err = rows.Err()
		}
		if err != nil {
			return err
		}
	}
	_, err := results.Exec()
	return err
}

// rollback ends a failed transaction so that the pool can keep the connection. It takes no context: the
// caller's may be what ended the transaction.
func rollback(conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
		_ = conn.Conn().Close(ctx)
	}
}

// Retryable reports whether err is a deadlock or a serialization failure: the transaction did not happen
// and may be tried again as it was.
func Retryable(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}

// Refused reports whether the server refused err's transaction for what is in it: a value out of range, a constraint, a
// limit, a trigger's exception. It did not happen, and would not if it were tried again as it was.
func Refused(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || len(pg.Code) != 5 || pg.Severity == "FATAL" || pg.Severity == "PANIC" {
		return false
	}
	switch pg.Code[:2] {
	case "21", "22", "23", "38", "39", "54", "P0", "XX":
		return true
	}
	return false
}

// CutOff reports whether the server cut err's transaction off because a statement took too long (statement_timeout),
// or somebody did (pg_cancel_backend). It did not happen; a smaller one may.
func CutOff(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "57014"
}

// pause waits a little longer with every try, with jitter, so that those who collided do not again.
func pause(ctx context.Context, try int) error {
	d := time.Duration(float64(time.Millisecond) * float64(int(1)<<try) * (0.5 + rand.Float64()))
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// atomically runs f in a READ COMMITTED transaction of its own, and again after a deadlock or a
// serialization failure.
func (s *Store) atomically(ctx context.Context, f func(pgx.Tx) error) error {
	return again(ctx, func() error {
		return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, f)
	})
}
