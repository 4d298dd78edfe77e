package cli

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// treesJSON is what "tree list --json" answers.
type treesJSON struct {
	Trees []treeJSON `json:"trees"`
	Next  tree.ID    `json:"next"` // for --after; 0: this was the last page
}

type treeJSON struct {
	ID        tree.ID     `json:"id"`
	Place     store.Place `json:"place"`
	Kind      string      `json:"kind"`
	Queue     string      `json:"queue"`
	State     tree.State  `json:"state"`
	Held      bool        `json:"held"`
	Sealed    bool        `json:"sealed"`
	Closing   string      `json:"closing,omitempty"`
	Round     int         `json:"round"`
	CreatedAt time.Time   `json:"created_at"`
	EndedAt   *time.Time  `json:"ended_at"`
	StalledAt *time.Time  `json:"stalled_at"`
	StalledBy tree.ID     `json:"stalled_by,omitempty"` // the oldest dead child that holds it up
	// StalledReason is why that child is dead.
	StalledReason tree.Reason  `json:"stalled_reason,omitempty"`
	Reason        tree.Reason  `json:"reason,omitempty"`
	Children      countersJSON `json:"children"`
}

func (a *App) treeList(g *globals) *cobra.Command {
	var (
		asJSON bool
		filter store.TreeFilter
		after  int64
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List trees, the newest first",
		Long: `List trees, the newest first: those that live and those whose root is dead, and with --finished also those
that have ended. Single jobs are no trees. You need it to find the tree that somebody asks about; with
--stalled, to find those that wait for a decision about a dead child.

  TREE      the id of the root
  STATE     of the root; "stalled" if a dead child holds up it or a finalizer below it
  CHILDREN  of the root alone: settled of all
  DEAD      of the root's children, in the dead-letter queue
  AGE       since it was inserted
  NOTE      how long it is stalled and by which dead child, why it is dead, whether it is closing

One page is listed; the last line says how to get the next.`,
		Example: `  coppice tree list
  coppice tree list --stalled --queue media
  coppice tree list --finished --kind sourcestats.folder --limit 10 --json`,
		Args: operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			switch {
			case filter.Limit < 1 || filter.Limit > store.MaxPage:
				return usage(cmd, "--limit: %d is outside 1 to %d", filter.Limit, store.MaxPage)
			case after < 0:
				return usage(cmd, "--after: %d is no tree's id", after)
			case filter.StalledOnly && filter.Finished:
				return usage(cmd, "--stalled and --finished exclude each other: what has ended is not stalled")
			}
			filter.After = tree.ID(after)
			db, st, err := a.open(ctx, g)
			if err != nil {
				return err
			}
			defer db.close(ctx)
			trees, next, err := st.Trees(ctx, filter)
			if err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(treesOf(trees, next))
			}
			if len(trees) == 0 {
				a.writeNoTrees(filter)
				return nil
			}
			return a.writeTrees(trees, next)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&filter.StalledOnly, "stalled", false, "only trees that a dead child holds up")
	flags.BoolVar(&filter.Finished, "finished", false, "also trees that have ended")
	flags.StringVar(&filter.Queue, "queue", "", "only trees whose root is in this queue")
	flags.StringVar(&filter.Kind, "kind", "", "only trees whose root is of this kind")
	flags.IntVar(&filter.Limit, "limit", 50, "list so many at most")
	flags.Int64Var(&after, "after", 0, "go on below this id, as the page before said")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// writeNoTrees says how to find what a list without --finished leaves out.
func (a *App) writeNoTrees(f store.TreeFilter) {
	if f.Finished || f.StalledOnly {
		fmt.Fprintln(a.Err, "there are no such trees")
		return
	}
	fmt.Fprintln(a.Err, "there are no such trees; --finished lists those that have ended as well")
}

func (a *App) writeTrees(trees []store.TreeRow, next tree.ID) error {
	t := a.newTable("tree>", "kind~", "queue~", "state", "children>", "dead>", "age>", "note")
	for _, r := range trees {
		state := r.State
		if r.StalledAt != nil {
			state = stalled
		}
		c := r.Counters
		settled := c.Completed + c.Cancelled + c.Dead + c.Removed
		t.AppendRow(table.Row{
			r.RootID, oneLine(r.Kind, 40), oneLine(r.Queue, 30), a.state(state),
			count(settled) + "/" + count(settled+c.Pending), count(c.Dead), duration(r.Age), treeNote(r),
		})
	}
	if err := a.writeTable(t); err != nil {
		return err
	}
	if next != 0 {
		fmt.Fprintf(a.Err, "there are more: --after %d\n", next)
	}
	return nil
}

func treeNote(r store.TreeRow) string {
	switch {
	case r.StalledAt != nil && r.StalledBy != 0:
		return fmt.Sprintf("for %s by dead %d: %s", duration(r.StalledFor), r.StalledBy, r.StalledReason)
	case r.StalledAt != nil:
		return "for " + duration(r.StalledFor)
	case r.Reason != "":
		return string(r.Reason)
	case r.Closing != "":
		return "closing as " + r.Closing
	case r.Held:
		return "held by an operator"
	case !r.Sealed:
		return "more children may come"
	}
	return ""
}

func treesOf(trees []store.TreeRow, next tree.ID) treesJSON {
	out := treesJSON{Trees: []treeJSON{}, Next: next}
	for _, r := range trees {
		out.Trees = append(out.Trees, treeJSON{
			ID: r.RootID, Place: r.Place, Kind: r.Kind, Queue: r.Queue, State: r.State, Held: r.Held, Sealed: r.Sealed,
			Closing: r.Closing, Round: r.Round, CreatedAt: r.CreatedAt, EndedAt: r.EndedAt, StalledAt: r.StalledAt,
			StalledBy: r.StalledBy, StalledReason: r.StalledReason,
			Reason: r.Reason, Children: countersOf(r.Counters),
		})
	}
	return out
}
