package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func (a *App) jobShow(g *globals) *cobra.Command {
	var (
		asJSON, stacks bool
		failures       int
	)
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show everything that is known about a job",
		Long: `Show a job from wherever it is: live, in the dead-letter queue or in the history. You need it when something
went wrong: it has the args as they were inserted, the failed attempts with their errors, the newest first,
and what the job waits for.

  attempts   started of allowed; snoozes and lost workers are counted apart
  children   of a finalizer: settled of all, and how they ended
  stalled    since when a dead child holds it up
  round      of a finalizer: how often it was made ready

The exit code is 1 if there is no such job, which is also the case when its history is no longer kept.`,
		Example: `  coppice job show 4711
  coppice job show 4711 --failures 50 --stacks
  coppice job show 4711 --json | jq .args`,
		Args: operands("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			id, err := parseID(cmd, args[0])
			if err != nil {
				return err
			}
			if failures < 0 || failures > store.MaxPage {
				return usage(cmd, "--failures: %d is outside 0 to %d", failures, store.MaxPage)
			}
			db, st, err := a.open(ctx, g)
			if err != nil {
				return err
			}
			defer db.close(ctx)
			job, err := st.Job(ctx, id)
			if err != nil {
				return notFound(err, "job", id)
			}
			var failed []store.AttemptError
			if failures > 0 {
				if failed, err = st.Errors(ctx, id, failures); err != nil {
					return err
				}
			}
			if asJSON {
				return a.writeJSON(jobOf(job, failed))
			}
			return a.writeJob(job, failed, stacks)
		},
	}
	cmd.Flags().IntVar(&failures, "failures", 5, "show at most so many failed attempts, the newest")
	cmd.Flags().BoolVar(&stacks, "stacks", false, "show the stacks of panics")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// notFoundError says what it may mean that an id leads nowhere.
type notFoundError struct {
	what string
	id   tree.ID
	err  error
}

func (e *notFoundError) Error() string {
	return fmt.Sprintf("there is no %s %d: the id is wrong, or it has ended and its history is no longer kept", e.what, e.id)
}

func (e *notFoundError) Unwrap() error { return e.err }

// notFound makes an error about an id that leads nowhere say so.
func notFound(err error, what string, id tree.ID) error {
	if errors.Is(err, store.ErrNotFound) {
		return &notFoundError{what, id, err}
	}
	return err
}

func (a *App) writeJob(j *store.JobRow, failed []store.AttemptError, stacks bool) error {
	if err := a.writeFacts(a.jobFacts(j)...); err != nil {
		return err
	}
	for _, f := range failed {
		var b strings.Builder
		fmt.Fprintf(&b, "\nattempt %d", f.Attempt)
		if f.Round > 0 {
			fmt.Fprintf(&b, " of round %d", f.Round)
		}
		fmt.Fprintf(&b, ", %s ago: %s", duration(f.Age), a.paint(a.OutTerminal, red, string(f.Outcome)))
		if f.WorkerID != 0 {
			fmt.Fprintf(&b, ", worker %d", f.WorkerID)
		}
		fmt.Fprintf(&b, "\n  %s\n", indent(f.Error))
		switch {
		case f.Stack != "" && stacks:
			fmt.Fprintf(&b, "\n  %s\n", indent(f.Stack))
		case f.Stack != "":
			b.WriteString("  (there is a stack: --stacks)\n")
		}
		if _, err := fmt.Fprint(a.Out, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// indent makes text of several lines stand below its heading, without what would act upon a terminal.
func indent(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i, line := range lines {
		lines[i] = oneLine(strings.ReplaceAll(line, "\t", "    "), 2000)
	}
	return strings.Join(lines, "\n  ")
}
