package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// steerJSON is the answer of the commands that steer jobs, with --json.
type steerJSON struct {
	Action  string      `json:"action"`
	Job     tree.ID     `json:"job"`
	Tree    tree.ID     `json:"tree"`
	Scope   store.Scope `json:"scope"`
	Reached reachJSON   `json:"reached"` // before
	DryRun  bool        `json:"dry_run"`
	Changed int         `json:"changed"` // jobs: cancelled and dead-lettered ones, or those that are now as was asked
	// Stopping are running jobs that were asked to stop.
	Stopping int `json:"stopping"`
}

// reachJSON counts live jobs.
type reachJSON struct {
	Jobs      int `json:"jobs"`
	Ready     int `json:"ready"`
	Scheduled int `json:"scheduled"`
	Running   int `json:"running"`
	Waiting   int `json:"waiting"`
	Held      int `json:"held"`
}

// verb is one way to steer jobs: it is a command for a tree, and one for a job.
type verb struct {
	name, operand string // the operand beside the ID; "": none
	short         string // with %s for what it acts on
	long          string
	destroys      bool
	done          string // as in "12 jobs held"
	act           func(ctx context.Context, st *store.Store, s steering) (changed, stopping int, err error)
}

// steering is what a command was told to do.
type steering struct {
	id       tree.ID
	scope    store.Scope
	by       store.By
	priority int
}

func verbs() []verb {
	steered := func(act func(*store.Store, context.Context, tree.ID, store.Scope, store.By) (store.Steered, error)) func(context.Context, *store.Store, steering) (int, int, error) {
		return func(ctx context.Context, st *store.Store, s steering) (int, int, error) {
			out, err := act(st, ctx, s.id, s.scope, s.by)
			return out.Changed, 0, wakeUp(ctx, st, out.Woken, nil, err)
		}
	}
	return []verb{
		{
			name: "cancel", short: "Cancel %s", destroys: true, done: "cancelled",
			long: `What does not run ends at once, as cancelled, and is in the history with who did it and why. What runs is asked
to stop, and ends when its handler returns: as cancelled, unless it completes. Nothing undoes this. Dead letters
stay where they are.`,
			act: func(ctx context.Context, st *store.Store, s steering) (int, int, error) {
				out, err := st.Cancel(ctx, s.id, s.scope, s.by)
				return out.Cancelled + out.DeadLettered, out.Stopping, wakeUp(ctx, st, out.Woken, out.Ended, err)
			},
		},
		{
			name: "hold", short: "Start nothing more of %s", done: "held",
			long: `Held jobs are not started until they are released, whatever else happens to them. What runs goes on, and is held
if it comes back.`,
			act: steered((*store.Store).Hold),
		},
		{
			name: "release", short: "Undo holds of %s", done: "released",
			long: `Jobs that were held may start again, at once if they are ready.`,
			act:  steered((*store.Store).Release),
		},
		{
			name: "run-now", short: "Run what is due later of %s", done: "due now",
			long: `Scheduled jobs become ready, those that back off after a failure included, at no cost in attempts. Holds, pauses
and limits stay in force.`,
			act: steered((*store.Store).RunNow),
		},
		{
			name: "priority", operand: "PRIORITY", short: "Give %s another priority", done: "with another priority now",
			long: fmt.Sprintf(`Lower runs first: %d to %d, and 0 unless the inserter said otherwise. A negative one needs "--" before it.`, tree.MinPriority, tree.MaxPriority),
			act: func(ctx context.Context, st *store.Store, s steering) (int, int, error) {
				out, err := st.SetPriority(ctx, s.id, s.scope, s.priority, s.by)
				return out.Changed, 0, wakeUp(ctx, st, out.Woken, nil, err)
			},
		},
	}
}

// wakeUp tells workers and those who wait what an act has made of their jobs. A hint that cannot be sent is no failure.
func wakeUp(ctx context.Context, st *store.Store, woken []string, ended []tree.ID, err error) error {
	if len(woken) > 0 {
		_ = st.Notify(ctx, woken)
	}
	if len(ended) > 0 {
		_ = st.NotifyEnded(ctx, ended)
	}
	return err
}

// steer makes the commands that steer trees, or single jobs.
func (a *App) steer(g *globals, trees bool) (out []*cobra.Command) {
	for _, v := range verbs() {
		out = append(out, a.steerBy(g, v, trees))
	}
	return out
}

func (a *App) steerBy(g *globals, v verb, trees bool) *cobra.Command {
	var asJSON, yes, dryRun, below bool
	s := steering{scope: store.ScopeJob}
	group, on, what := "job", "a job", "The job that ID names, alone; with --below, everything below it too."
	if trees {
		s.scope, group, on = store.ScopeTree, "tree", "a whole tree"
		what = "The tree is the one that job ID is in, whatever became of that job."
	}
	operandNames := strings.Fields("ID " + v.operand)
	example := fmt.Sprintf("  coppice %s %s 4711 --reason \"the input was wrong\"", group, v.name)
	if v.operand != "" {
		example = fmt.Sprintf("  coppice %s %s 4711 -- -10", group, v.name)
	}
	cmd := &cobra.Command{
		Use:     v.name + " " + strings.Join(operandNames, " "),
		Short:   fmt.Sprintf(v.short, on),
		Long:    fmt.Sprintf(v.short, on) + ". " + what + "\n\n" + v.long + "\n\nWhat it reaches is counted first. Who did it, when and why is kept in the audit.",
		Example: example + fmt.Sprintf("\n  coppice %s %s 4711 --dry-run --json", group, strings.TrimSpace(v.name+" "+strings.Repeat("5", min(1, len(v.operand))))),
		Args:    operands(operandNames...),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		var err error
		if s.id, err = parseID(cmd, args[0]); err != nil {
			return err
		}
		if v.operand != "" {
			if s.priority, err = strconv.Atoi(args[1]); err != nil {
				return usage(cmd, "unreadable PRIORITY %q: it is a whole number", args[1])
			}
		}
		if below {
			s.scope = store.ScopeBranch
		}
		db, st, err := a.open(ctx, g)
		if err != nil {
			return err
		}
		defer db.close(ctx)
		reach, err := st.Reach(ctx, s.id, s.scope)
		if err != nil {
			return err
		}
		answer := steerJSON{
			Action: v.name, Job: s.id, Tree: reach.RootID, Scope: s.scope, DryRun: dryRun,
			Reached: reachJSON{reach.Jobs, reach.Ready, reach.Scheduled, reach.Running, reach.Waiting, reach.Held},
		}
		if !dryRun {
			if v.destroys {
				if err := a.confirm(cmd, yes, reached(v, s, reach)+"."); err != nil {
					return err
				}
			}
			var has *store.HasChildrenError
			answer.Changed, answer.Stopping, err = v.act(ctx, st, s)
			if errors.As(err, &has) {
				return usage(cmd, "job %d has %s live children; to cancel them too, add --below", has.ID, count(has.Children))
			}
			if err != nil {
				return err
			}
		}
		if asJSON {
			return a.writeJSON(answer)
		}
		if dryRun {
			_, err = fmt.Fprintf(a.Out, "%s; nothing was done\n", reached(v, s, reach))
			return err
		}
		said := fmt.Sprintf("%s of %s %s", count(answer.Changed), jobs(reach.Jobs), v.done)
		if answer.Stopping > 0 {
			said += fmt.Sprintf(", %s running asked to stop", count(answer.Stopping))
		}
		_, err = fmt.Fprintln(a.Out, said)
		return err
	}
	if !trees {
		cmd.Flags().BoolVar(&below, "below", false, "everything below the job too")
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only count what it would reach")
	if v.destroys {
		yesFlag(cmd, &yes)
	}
	byFlags(cmd, &s.by)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// reached says what an act is about to reach.
func reached(v verb, s steering, r store.Reach) string {
	of := "tree " + r.RootID.String()
	switch s.scope {
	case store.ScopeJob:
		of = "job " + s.id.String()
	case store.ScopeBranch:
		of = "job " + s.id.String() + " and what is below it"
	}
	return fmt.Sprintf("%s %s: %s live: %s running, %s ready, %s scheduled, %s waiting; %s of them held",
		v.name, of, jobs(r.Jobs), count(r.Running), count(r.Ready), count(r.Scheduled), count(r.Waiting), count(r.Held))
}

func jobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return count(n) + " jobs"
}
