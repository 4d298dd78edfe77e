package cli

import (
	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// view says how much of a tree is shown.
type view struct {
	depth    int // levels below the job
	children int // of one parent
	all      bool
	after    int64
}

func (a *App) treeShow(g *globals) *cobra.Command {
	var (
		asJSON bool
		v      view
	)
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Draw a tree with the states of its jobs",
		Long: `Draw the tree below a job, which is the whole tree if ID names its root. Of every parent's children those come
first that you look for at two in the morning: the dead with their error, then the stalled, the running,
what waits, and at the end what has ended well. Whatever does not fit is counted in one line, so that a tree
of a hundred thousand jobs is still a page; --depth and --children show more.

With --all it lists every child of the job instead, oldest first, as a table; --after goes on behind a child.

The first lines count the jobs of the whole tree, "at least" where there are too many to count.`,
		Example: `  coppice tree show 4711
  coppice tree show 4711 --depth 1 --children 50
  coppice tree show 4712 --all --after 9000
  coppice tree show 4711 --json | jq '.job.children[] | select(.state == "dead")'`,
		Args: operands("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			id, err := parseID(cmd, args[0])
			if err != nil {
				return err
			}
			if err := v.check(cmd); err != nil {
				return err
			}
			db, st, err := a.open(ctx, g)
			if err != nil {
				return err
			}
			defer db.close(ctx)
			if v.all {
				return a.listChildren(ctx, st, id, tree.ID(v.after), asJSON)
			}
			p, err := takePicture(ctx, st, id, v)
			if err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(p.json())
			}
			return a.draw(p)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&v.depth, "depth", 3, "show so many levels below the job")
	flags.IntVar(&v.children, "children", 10, "show so many children of a parent")
	flags.BoolVar(&v.all, "all", false, "list every child of the job, oldest first")
	flags.Int64Var(&v.after, "after", 0, "with --all, start behind this child")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (v view) check(cmd *cobra.Command) error {
	switch {
	case v.depth < 0:
		return usage(cmd, "--depth: %d is below 0", v.depth)
	case v.children < 1 || v.children > store.MaxPage:
		return usage(cmd, "--children: %d is outside 1 to %d; for all there is --all", v.children, store.MaxPage)
	case v.after != 0 && !v.all:
		return usage(cmd, "--after goes with --all")
	}
	return nil
}
