package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/store"
)

// switchJSON is the answer of "queue pause --json" and "queue resume --json".
type switchJSON struct {
	Queue   string `json:"queue"`
	Paused  bool   `json:"paused"`
	Changed bool   `json:"changed"` // false: it was so already
	Ready   int64  `json:"ready"`   // when it was asked
	Running int64  `json:"running"`
}

func (a *App) queuePause(g *globals) *cobra.Command {
	return a.queueSwitch(g, true, &cobra.Command{
		Use:   "pause QUEUE",
		Short: "Start no more jobs of a queue",
		Long: `Keep all workers from starting jobs of a queue, until it is resumed. You need it when what the jobs depend on is
down or must be spared, and as the first step of finding out what is wrong.

Jobs that run go on to their end. What workers have claimed and not started goes back to the queue, at no
cost in attempts. Inserts go on. Who paused it, when and why is kept in the audit.`,
		Example: `  coppice queue pause mail --reason "the mail server is down"`,
	}, (*store.Store).PauseQueue)
}

func (a *App) queueResume(g *globals) *cobra.Command {
	return a.queueSwitch(g, false, &cobra.Command{
		Use:     "resume QUEUE",
		Short:   "Let jobs of a paused queue start again",
		Long:    `Undo "coppice queue pause": workers claim from the queue again, at once.`,
		Example: `  coppice queue resume mail`,
	}, (*store.Store).ResumeQueue)
}

// queueSwitch completes a command that sets whether a queue is paused.
func (a *App) queueSwitch(g *globals, pause bool, cmd *cobra.Command,
	change func(*store.Store, context.Context, string, store.By) (bool, error),
) *cobra.Command {
	var asJSON bool
	var by store.By
	cmd.Args = operands("QUEUE")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		db, st, err := a.open(cmd.Context(), g)
		if err != nil {
			return err
		}
		defer db.close(cmd.Context())
		answer := switchJSON{Queue: args[0], Paused: pause}
		queues, err := st.Queues(cmd.Context())
		if err != nil {
			return err
		}
		for _, q := range queues {
			if q.Name == args[0] {
				answer.Ready, answer.Running = q.Ready, q.Running
			}
		}
		if answer.Changed, err = change(st, cmd.Context(), args[0], by); err != nil {
			return err
		}
		if asJSON {
			return a.writeJSON(answer)
		}
		done, already := "resumed", "was not paused"
		if pause {
			done, already = "paused", "was paused already"
		}
		if !answer.Changed {
			done = already
		}
		_, err = fmt.Fprintf(a.Out, "queue %s %s; %s ready, %s running\n",
			oneLine(args[0], 60), done, count(answer.Ready), count(answer.Running))
		return err
	}
	byFlags(cmd, &by)
	jsonFlag(cmd, &asJSON)
	return cmd
}
