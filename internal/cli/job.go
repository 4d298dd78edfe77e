package cli

import "github.com/spf13/cobra"

func (a *App) job(g *globals) *cobra.Command {
	return group("job",
		"Look at single jobs, and steer them",
		`Look at single jobs: what was stored, what went wrong, and where the job stands now; and cancel, hold or hurry them.`,
		`  coppice job show 4711
  coppice job explain 4711
  coppice job run-now 4711`,
		append([]*cobra.Command{a.jobShow(g), a.jobExplain(g)}, a.steer(g, false)...)...,
	)
}
