package cli

import "github.com/spf13/cobra"

func (a *App) tree(g *globals) *cobra.Command {
	return group("tree",
		"Look at trees of jobs, and steer them",
		`Look at trees of jobs: which there are, how far they have come, and what holds them up; and cancel, hold or hurry
them. A tree is named by the id of its root.`,
		`  coppice tree list --stalled
  coppice tree show 4711
  coppice tree explain 4711
  coppice tree watch 4711
  coppice tree cancel 4711`,
		append([]*cobra.Command{a.treeList(g), a.treeShow(g), a.treeWatch(g), a.treeExplain(g)}, a.steer(g, true)...)...,
	)
}
