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

// explanationJSON is one job in the answers of "explain --json".
type explanationJSON struct {
	Job     tree.ID        `json:"job"`
	Tree    tree.ID        `json:"tree"`
	Kind    string         `json:"kind"`
	Queue   string         `json:"queue"`
	State   tree.State     `json:"state"`
	Reasons []obstacleJSON `json:"reasons"` // the one that decides comes first
}

// obstacleJSON is one reason, with the data that goes with it.
type obstacleJSON struct {
	Because   store.Because `json:"because"`
	Text      string        `json:"text"`
	Since     *time.Time    `json:"since,omitempty"`
	InSeconds float64       `json:"in_seconds,omitempty"`
	Count     int           `json:"count,omitempty"`
	Most      int           `json:"most,omitempty"`
	Key       string        `json:"key,omitempty"`
	Actor     string        `json:"actor,omitempty"`
	Why       string        `json:"why,omitempty"`
	Worker    tree.WorkerID `json:"worker,omitempty"`
	Jobs      []waitedJSON  `json:"jobs,omitempty"` // at most 10
}

type waitedJSON struct {
	ID    tree.ID    `json:"id"`
	Kind  string     `json:"kind"`
	State tree.State `json:"state"`
}

func explanationOf(e *store.Explanation) explanationJSON {
	out := explanationJSON{Job: e.ID, Tree: e.RootID, Kind: e.Kind, Queue: e.Queue, State: e.State}
	for _, o := range e.Reasons {
		r := obstacleJSON{o.Because, obstacle(o), o.Since, o.In.Seconds(), o.Count, o.Most, o.Key, o.Actor, o.Why, o.Worker, nil}
		for _, j := range o.Jobs {
			r.Jobs = append(r.Jobs, waitedJSON(j))
		}
		out.Reasons = append(out.Reasons, r)
	}
	return out
}

// obstacle says a reason in words.
func obstacle(o store.Obstacle) string {
	said := map[store.Because]func() string{
		store.BecauseClosing: func() string {
			if o.Count == 0 {
				return "it is being closed" + byWhom(o)
			}
			return fmt.Sprintf("it is being closed%s; it waits for %s live children to end", byWhom(o), count(o.Count))
		},
		store.BecauseHeld:     func() string { return "it is held" + since(o) + byWhom(o) },
		store.BecausePaused:   func() string { return fmt.Sprintf("queue %s is paused%s%s", oneLine(o.Key, 60), since(o), byWhom(o)) },
		store.BecauseDue:      func() string { return due(o) },
		store.BecauseComeDue:  func() string { return "it has come due; the next claim of its queue makes it ready" },
		store.BecauseChildren: func() string { return fmt.Sprintf("it waits for %s live children%s", count(o.Count), which(o)) },
		store.BecauseStalled: func() string {
			return fmt.Sprintf("it is stalled%s by %s in the dead-letter queue%s", since(o), jobs(o.Count), which(o))
		},
		store.BecauseUnsealed: func() string {
			return fmt.Sprintf("it is open to more children%s; unless it is sealed it is given up in %s", since(o), duration(o.In))
		},
		store.BecauseGroup: func() string {
			return fmt.Sprintf("of its group %s another comes first%s", oneLine(o.Key, 60), which(o))
		},
		store.BecauseLimit: func() string {
			if o.In > 0 {
				return fmt.Sprintf("its limit %s is reached: the next may start in %s", oneLine(o.Key, 60), duration(o.In))
			}
			return fmt.Sprintf("its limit %s is reached: %s run, of %s", oneLine(o.Key, 60), count(o.Count), count(o.Most))
		},
		store.BecauseQueueFull: func() string {
			return fmt.Sprintf("the limit of queue %s is reached: %s run, of %s", oneLine(o.Key, 60), count(o.Count), count(o.Most))
		},
		store.BecauseNoWorker: func() string { return fmt.Sprintf("no live worker serves queue %s", oneLine(o.Key, 60)) },
		store.BecauseNoHandler: func() string {
			return fmt.Sprintf("no live worker of its queue has a handler for %s", oneLine(o.Key, 60))
		},
		store.BecauseTurn: func() string {
			if o.Count == 0 {
				return "nothing keeps it: it is the next of its queue"
			}
			return fmt.Sprintf("nothing keeps it but its turn: %s of its queue come before it%s", jobs(o.Count), map[bool]string{true: ", or more"}[o.Count >= 1_000])
		},
		store.BecauseRunning: func() string { return fmt.Sprintf("it runs%s, on worker %d", since(o), o.Worker) },
		store.BecauseLost: func() string {
			return fmt.Sprintf("worker %d, which ran it, has lost its lease: a reaper takes the job back", o.Worker)
		},
		store.BecauseEnded: func() string { return "it has ended" + since(o) + ", " + oneLine(o.Why, 500) },
		store.BecauseDead:  func() string { return "it is a dead letter" + since(o) + ", " + oneLine(o.Why, 500) },
	}[o.Because]
	if said == nil {
		return string(o.Because)
	}
	return said()
}

func since(o store.Obstacle) string {
	if o.Since == nil {
		return ""
	}
	return " since " + moment(o.Since)
}

func byWhom(o store.Obstacle) string {
	said := ""
	if o.Actor != "" {
		said += " by " + oneLine(o.Actor, 200)
	}
	if o.Why != "" {
		said += ", " + oneLine(o.Why, 500)
	}
	return said
}

func due(o store.Obstacle) string {
	switch {
	case o.Why != "":
		return fmt.Sprintf("it backs off after attempt %d, for %s more: %s", o.Count, duration(o.In), oneLine(o.Why, 500))
	case o.Count > 0:
		return fmt.Sprintf("it has put itself off, for %s more", duration(o.In))
	}
	return "it is due in " + duration(o.In)
}

// which names the jobs that are waited for.
func which(o store.Obstacle) string {
	if len(o.Jobs) == 0 {
		return ""
	}
	words := make([]string, len(o.Jobs))
	for i, j := range o.Jobs {
		words[i] = fmt.Sprintf("%d %s (%s)", j.ID, oneLine(j.Kind, 40), j.State)
	}
	more := ""
	if o.Count > len(o.Jobs) {
		more = ", ..."
	}
	return ": " + strings.Join(words, ", ") + more
}

func (a *App) jobExplain(g *globals) *cobra.Command {
	return a.explain(g, &cobra.Command{
		Use:   "explain ID",
		Short: "Say why a job does not run",
		Long: `Say why a job does not run: when it is due, who holds it, that its queue is paused or full or served by nobody, who
of its group comes first, that its limit has no room, which children it waits for, which dead letter stalls it. Of
several reasons the one that decides comes first. For a job that runs, has ended or is dead it says that.`,
		Example: `  coppice job explain 4711
  coppice job explain 4711 --json | jq '.[0].reasons[0].because'`,
	}, func(ctx context.Context, st *store.Store, id tree.ID, _ int) ([]*store.Explanation, error) {
		e, err := st.Explain(ctx, id)
		return []*store.Explanation{e}, err
	})
}

func (a *App) treeExplain(g *globals) *cobra.Command {
	most := 20
	cmd := a.explain(g, &cobra.Command{
		Use:   "explain ID",
		Short: "Say what a tree waits for",
		Long: `Say what a tree waits for: why its root does not run, then the same of the children that the root waits for, and of
theirs, down to what runs or what something else keeps. ID may be any job of the tree. Of many children it explains
the first ten.`,
		Example: "  coppice tree explain 4711\n  coppice tree explain 4711 --jobs 100 --json",
	}, func(ctx context.Context, st *store.Store, id tree.ID, most int) ([]*store.Explanation, error) {
		return st.ExplainTree(ctx, id, most)
	})
	cmd.Flags().IntVar(&most, "jobs", most, "explain so many jobs at most")
	return cmd
}

// explain completes a command that explains jobs.
func (a *App) explain(g *globals, cmd *cobra.Command,
	explain func(ctx context.Context, st *store.Store, id tree.ID, most int) ([]*store.Explanation, error),
) *cobra.Command {
	var asJSON bool
	cmd.Args = operands("ID")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := parseID(cmd, args[0])
		if err != nil {
			return err
		}
		most := 1
		if f := cmd.Flags().Lookup("jobs"); f != nil {
			if most, err = cmd.Flags().GetInt("jobs"); err != nil || most < 1 || most > store.MaxPage {
				return usage(cmd, "--jobs: %d is outside 1 to %d", most, store.MaxPage)
			}
		}
		db, st, err := a.open(cmd.Context(), g)
		if err != nil {
			return err
		}
		defer db.close(cmd.Context())
		all, err := explain(cmd.Context(), st, id, most)
		if err != nil {
			return notFound(err, "job", id)
		}
		if asJSON {
			out := make([]explanationJSON, len(all))
			for i, e := range all {
				out[i] = explanationOf(e)
			}
			return a.writeJSON(out)
		}
		for _, e := range all {
			var b strings.Builder
			fmt.Fprintf(&b, "job %d, %s, %s\n", e.ID, oneLine(e.Kind, tree.MaxKindBytes), a.state(e.State))
			for _, o := range e.Reasons {
				fmt.Fprintf(&b, "  %s\n", obstacle(o))
			}
			if _, err := fmt.Fprint(a.Out, b.String()); err != nil {
				return err
			}
		}
		return nil
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
