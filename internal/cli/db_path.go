package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/internal/pglocal"
)

func (a *App) dbPath() *cobra.Command {
	return &cobra.Command{
		Use:   "path",
		Short: "Print the private server's folder",
		Long: `Print the folder of the private PostgreSQL, which holds its data, its settings and its log. It need not exist
yet: the first command that needs the server makes it.`,
		Example: `  coppice db path
  tail "$(coppice db path)/server.log"`,
		Args: operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			folder, err := pglocal.Path(cmd.Context(), a.local())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.Out, folder)
			return err
		},
	}
}
