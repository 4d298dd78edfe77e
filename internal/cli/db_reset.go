package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/internal/pglocal"
)

func (a *App) dbReset() *cobra.Command {
	var force, yes bool
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Delete the private server's data",
		Long: `Stop the private PostgreSQL and delete its database with all that is in it. The next command that needs it
starts with an empty one. It says what it would delete and asks first.`,
		Example: `  coppice db reset
  coppice db reset --yes`,
		Args: operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, options := cmd.Context(), a.local()
			st, err := pglocal.GetStatus(ctx, options)
			if err != nil {
				return err
			}
			if st.State == pglocal.Absent {
				fmt.Fprintln(a.Err, "there is no private database in", st.Folder)
				return nil
			}
			what := fmt.Sprintf("This deletes the database in %s (%s) with all the jobs in it.", st.Data, size(st.Size))
			if err := a.confirm(cmd, yes, what); err != nil {
				return err
			}
			options.Force = force
			if err := pglocal.Reset(ctx, options); err != nil {
				return inUse(err)
			}
			fmt.Fprintln(a.Err, "deleted")
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "delete it even if programs use it")
	yesFlag(cmd, &yes)
	return cmd
}
