package cli

import "github.com/spf13/cobra"

func (a *App) job(g *globals) *cobra.Command {
	return group("job",
		"Look at single jobs",
		`Look at single jobs: what was stored, what went wrong, and where the job stands now.`,
		`  coppice job show 4711`,
		a.jobShow(g),
	)
}
