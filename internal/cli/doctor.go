package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// diagnosis is what "doctor --json" answers.
type diagnosis struct {
	Healthy  bool          `json:"healthy"` // no invariant is broken
	At       time.Time     `json:"at"`      // by the database's clock
	Checked  int           `json:"checked"` // invariants
	Findings []findingJSON `json:"findings"`
	Notes    []string      `json:"notes"` // no damage, but worth a look
}

type findingJSON struct {
	Invariant store.Invariant `json:"invariant"`
	Rule      string          `json:"rule"`
	Total     int64           `json:"total"`
	Rows      []offenderJSON  `json:"rows"` // the first of them
}

type offenderJSON struct {
	Job    tree.ID `json:"job"`
	Tree   tree.ID `json:"tree,omitempty"`
	Detail string  `json:"detail"`
}

func (a *App) doctor(g *globals) *cobra.Command {
	var (
		asJSON bool
		opts   store.CheckOptions
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check that no invariant is broken",
		Long: `Check every job, dead letter and result against the invariants that Coppice keeps: counters that match the
children, no finalizer that waits for nothing or runs too early, no job in two places. It looks at one
snapshot and may be run while workers work; it changes nothing and costs a few passes over the live tables.

The exit code is 1 if anything is broken, and each finding names the rule and the jobs. Damage means a bug, or
that somebody changed the tables by hand: please report it with the output of --json.

Notes are no damage: workers that have gone silent, and queues whose jobs no worker takes.`,
		Example: `  coppice doctor
  coppice doctor --history --rows 1000 --json`,
		Args: operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if opts.Rows < 1 || opts.Rows > store.MaxCheckRows {
				return usage(cmd, "--rows: %d is outside 1 to %d", opts.Rows, store.MaxCheckRows)
			}
			db, st, err := a.open(ctx, g)
			if err != nil {
				return err
			}
			defer db.close(ctx)
			report, err := st.Check(ctx, opts)
			if err != nil {
				return err
			}
			notes, err := notes(ctx, st)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.writeJSON(diagnose(report, notes))
			} else {
				err = a.writeDiagnosis(report, notes)
			}
			if err == nil && !report.OK() {
				err = errAnswered
			}
			return err
		},
	}
	cmd.Flags().IntVar(&opts.Rows, "rows", store.DefaultCheckRows, "name at most so many jobs for each broken rule")
	cmd.Flags().BoolVar(&opts.History, "history", false, "also look for jobs that are in the history twice, which reads all of it")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *App) writeDiagnosis(r store.Report, notes []string) error {
	var b strings.Builder
	if r.OK() {
		fmt.Fprintf(&b, "%s all %d invariants hold\n", a.paint(a.OutTerminal, green, "healthy:"), r.Checked)
	} else {
		fmt.Fprintf(&b, "%s %s", a.paint(a.OutTerminal, red, "damaged:"), r)
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "%s %s\n", a.paint(a.OutTerminal, yellow, "note:"), n)
	}
	_, err := fmt.Fprint(a.Out, b.String())
	return err
}

func diagnose(r store.Report, notes []string) diagnosis {
	d := diagnosis{Healthy: r.OK(), At: r.At, Checked: r.Checked, Findings: []findingJSON{}, Notes: notes}
	for _, f := range r.Findings {
		finding := findingJSON{Invariant: f.Invariant, Rule: f.Rule, Total: f.Total, Rows: []offenderJSON{}}
		for _, o := range f.Rows {
			finding.Rows = append(finding.Rows, offenderJSON{o.Job, o.RootID, o.Detail})
		}
		d.Findings = append(d.Findings, finding)
	}
	return d
}

// notes looks for what is no damage and still keeps work from being done.
func notes(ctx context.Context, st *store.Store) ([]string, error) {
	workers, err := st.Workers(ctx)
	if err != nil {
		return nil, err
	}
	queues, err := st.Queues(ctx)
	if err != nil {
		return nil, err
	}
	out := []string{} // not nil, for JSON
	served := map[string]bool{}
	for _, w := range workers {
		if w.Lease == store.LeaseOver {
			out = append(out, fmt.Sprintf("worker %d (%s, process %d on %s) has been silent for %s; its %s will be taken back",
				w.ID, oneLine(w.Name, 60), w.PID, oneLine(w.Host, 60), duration(w.SilentFor), plural(w.Running, "running job", "running jobs")))
			continue
		}
		for _, q := range w.Queues {
			served[q] = true
		}
	}
	for _, q := range queues {
		switch {
		case q.Ready == 0:
		case q.PausedAt != nil:
			out = append(out, fmt.Sprintf("queue %q is paused with %s", q.Name, plural(q.Ready, "ready job", "ready jobs")))
		case !served[q.Name]:
			out = append(out, fmt.Sprintf("queue %q has %s and no worker", q.Name, plural(q.Ready, "ready job", "ready jobs")))
		}
	}
	return out, nil
}
