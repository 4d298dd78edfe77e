package bench

import (
	"context"
	"fmt"

	"github.com/coppicehq/coppice/store"
)

// leftSQL counts, over whole tables of the bench's own schema, what a queue's jobs have left. No locks.
const leftSQL = `SELECT (SELECT count(*) FROM %[1]s.jobs WHERE queue = $1),
	(SELECT count(*) FROM %[1]s.dead_jobs WHERE queue = $1),
	(SELECT count(*) FROM %[1]s.history WHERE queue = $1 AND state = 'completed'),
	(SELECT count(*) FROM %[1]s.results)`

// verify holds the run against what the handlers saw and what the database has, so that no rate is told of work that
// was not done, or done twice.
func (r *run) verify(ctx context.Context, st *store.Store) error {
	if n := r.twice.Load(); n > 0 {
		return fmt.Errorf("%d jobs ran more than once", n)
	}
	if n := r.wrong.Load(); n > 0 {
		return fmt.Errorf("%d finalizers have not read exactly their children's results", n)
	}
	roots := 0
	if r.options.children() > 0 {
		roots = r.total / (1 + r.options.children())
	}
	if read := r.read.Load(); read != int64(roots*r.options.children()) {
		return fmt.Errorf("finalizers have read %d results of %d children", read, roots*r.options.children())
	}
	var live, dead, history, results int
	err := st.Pool().QueryRow(ctx, fmt.Sprintf(leftSQL, quote(st.Schema())), r.options.Queue).Scan(&live, &dead, &history, &results)
	if err != nil {
		return fmt.Errorf("count what is left: %w", err)
	}
	kept := r.total
	if r.options.KeepNone {
		kept = 0
	}
	if live != 0 || dead != 0 || results != 0 || history != kept {
		return fmt.Errorf("the database has %d live jobs, %d dead letters, %d results and %d rows of history, not 0, 0, 0 and %d",
			live, dead, results, history, kept)
	}
	return nil
}
