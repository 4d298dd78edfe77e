package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/internal/pglocal"
)

func (a *App) dbStop() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop the private server",
		Long: `Stop the private PostgreSQL; its data stays. While programs use it the command refuses and names them, unless
--force is given. Stopping what does not run is a success. Programs that merely connect to its URL
are not known as users and lose their connections.`,
		Example: `  coppice db stop
  coppice db stop --force`,
		Args: operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			options := a.local()
			options.Force = force
			if err := pglocal.Stop(cmd.Context(), options); err != nil {
				return inUse(err)
			}
			fmt.Fprintln(a.Err, "the private PostgreSQL is stopped")
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "stop it even if programs use it")
	return cmd
}

// inUse adds the way out to an error about programs that use the server.
func inUse(err error) error {
	var busy *pglocal.InUseError
	if errors.As(err, &busy) {
		return fmt.Errorf("%w; end them first, or add --force", err)
	}
	return err
}
