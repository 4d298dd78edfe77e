package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// ErrNotFound is in the chain of the error for a job or a tree of which no table has a row: the id was never
// given out, or the job has ended and its history is no longer kept.
var ErrNotFound = errors.New("not live, not in the dead-letter queue and not in the history")

// Page sizes of every list that the store reads.
const (
	DefaultPage = 100  // rows, where the caller says zero or less
	MaxPage     = 1000 // rows; more is cut to this
)

// Place is the table that has a job's row.
type Place string

// The places of a job. It moves from one to another in one transaction and is never in two.
const (
	PlaceLive    Place = "live"    // jobs
	PlaceDead    Place = "dead"    // dead_jobs
	PlaceHistory Place = "history" // history
)

// Counters are what a parent knows of its children.
type Counters struct {
	Pending   int `db:"pending"`   // not yet settled
	Completed int `db:"completed"` //
	Dead      int `db:"dead"`      // in the dead-letter queue
	Cancelled int `db:"cancelled"` //
	Removed   int `db:"removed"`   // deleted from the dead-letter queue
}

// pageSize clamps what a caller asked for.
func pageSize(limit int) int {
	if limit <= 0 {
		return DefaultPage
	}
	return min(limit, MaxPage)
}

// page cuts rows, which were read with one more than limit, to limit, and says where the next page starts:
// after the last id of this one, or nowhere (zero).
func page[T any](rows []T, limit int, id func(T) tree.ID) ([]T, tree.ID) {
	if len(rows) <= limit {
		return rows, 0
	}
	rows = rows[:limit]
	return rows, id(rows[limit-1])
}

// readRows runs one query under fixedPlan, in one round trip: the lists of a tree must walk their index in its order
// and stop, and not gather and sort a million rows to show ten because the statistics are stale.
func readRows[T any](ctx context.Context, s *Store, text string, args ...any) (out []T, err error) {
	err = s.pipe(ctx, step{sql: fixedPlan}, step{sql: s.sql(text), args: args, rows: func(rows pgx.Rows) (err error) {
		out, err = pgx.CollectRows(rows, pgx.RowToStructByName[T])
		return err
	}})
	return out, err
}

// nanos writes an interval as a time.Duration. The database subtracts its own times: Go's clock may differ.
func nanos(interval string) string {
	return fmt.Sprintf("(extract(epoch FROM %s) * 1000000000)::bigint", interval)
}
