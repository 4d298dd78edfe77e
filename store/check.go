package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// DefaultCheckRows is how many offending rows [Store.Check] names per invariant unless told otherwise.
const DefaultCheckRows = 100

// MaxCheckRows is the most that it names.
const MaxCheckRows = 10_000

// CheckOptions says how far a check goes. The zero value is what an operator wants on a live system.
type CheckOptions struct {
	// Rows bounds how many offending rows are named per invariant, 1 to MaxCheckRows. They are always
	// counted whole. Zero: DefaultCheckRows.
	Rows int
	// History also looks for jobs that stand in the history twice, which reads the index of every
	// partition: for tests, and for a doctor who has time. False: the history is only probed for the ids
	// of live and dead jobs.
	History bool
}

// Report is what a check found, all of it in one snapshot.
type Report struct {
	At       time.Time // the database's clock when the check began
	Checked  int       // how many invariants were checked
	Findings []Finding // the broken ones, in the order of the catalogue; empty: all hold
}

// Finding is one broken invariant.
type Finding struct {
	Invariant Invariant
	Rule      string // the sentence that does not hold
	Total     int64  // how many rows break it
	Rows      []Offender
}

// Offender is one row that breaks an invariant.
type Offender struct {
	Job    tree.ID
	RootID tree.ID // zero where the row does not know its tree
	Detail string  // in words, with numbers: "pending is 3, live children are 2"
}

// OK reports whether every invariant holds.
func (r Report) OK() bool { return len(r.Findings) == 0 }

// String is the report for people: a line, then one for each finding and each row that it names.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d invariants are broken\n", len(r.Findings), r.Checked)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s Rows that break it: %d.\n", f.Invariant, f.Rule, f.Total)
		for _, o := range f.Rows {
			fmt.Fprintf(&b, "  job %d of tree %d: %s\n", o.Job, o.RootID, o.Detail)
		}
		if more := f.Total - int64(len(f.Rows)); more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	return b.String()
}

// checkSettings gives the check's hash tables room: at the default work_mem of 4 MB they would go to disk
// from some 50,000 jobs on. jit costs more than it saves on statements this simple. Both end with the
// transaction.
const checkSettings = `SELECT now() FROM (SELECT set_config('work_mem', '64MB', true), set_config('jit', 'off', true)) s`

// Check looks for rows that break an invariant of docs/internals.md, over the whole schema. It reads one
// snapshot (a REPEATABLE READ, READ ONLY transaction), so that work going on meanwhile neither waits for
// it nor shows up as half done, and takes no lock that anything but DDL would notice. It changes nothing.
//
// Its cost is a fixed number of passes over jobs, dead_jobs and results, joined by hash, and an index probe
// of every history partition for each live or dead job; 64 MB of memory a hash table.
// An error means that the check could not be made, never that it found something.
func (s *Store) Check(ctx context.Context, opts CheckOptions) (Report, error) {
	rows := opts.Rows
	if rows <= 0 {
		rows = DefaultCheckRows
	}
	rows = min(rows, MaxCheckRows)
	var r Report
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error {
			if err := tx.QueryRow(ctx, checkSettings).Scan(&r.At); err != nil {
				return err
			}
			for _, rule := range rules(opts.History) {
				f, err := s.checkRule(ctx, tx, rule, rows)
				if err != nil {
					return fmt.Errorf("%s: %w", rule.invariant, err)
				}
				r.Checked++
				if f.Total > 0 {
					r.Findings = append(r.Findings, f)
				}
			}
			return nil
		})
	if err != nil {
		return Report{}, fmt.Errorf("check invariants: %w", err)
	}
	return r, nil
}

// offendersSQL counts what a rule's query finds and returns the first rows of it.
const offendersSQL = `SELECT job, root, detail, count(*) OVER () AS total FROM (%s) found ORDER BY job, detail LIMIT $1`

func (s *Store) checkRule(ctx context.Context, tx pgx.Tx, r rule, limit int) (Finding, error) {
	f := Finding{Invariant: r.invariant, Rule: r.sentence}
	rows, err := tx.Query(ctx, s.sql(fmt.Sprintf(offendersSQL, r.sql)), limit)
	if err != nil {
		return f, err
	}
	f.Rows, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o Offender, err error) {
		return o, row.Scan(&o.Job, &o.RootID, &o.Detail, &f.Total)
	})
	return f, err
}
