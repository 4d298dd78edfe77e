package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/internal/pglocal"
	"github.com/coppicehq/coppice/migrations"
)

func (a *App) dbStart(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "start",
		Short: "Start the private server and keep it up",
		Long: `Start the private PostgreSQL and keep it up until "coppice db stop". The schema (--schema) is migrated, and
what is printed is the server's URL and nothing else, so that a shell can take it. A server that runs
already is kept up from now on.

The first start makes the database, which takes a second or two. Where no PostgreSQL is installed, one is
downloaded.`,
		Example: `  coppice db start
  export COPPICE_DATABASE_URL=$(coppice db start)`,
		Args: operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			schema := a.schema(g)
			if err := migrations.ValidSchema(schema); err != nil {
				return err
			}
			server, err := pglocal.StartDetached(ctx, a.local())
			if err != nil {
				return noServer(err)
			}
			db := &database{schema: schema, server: server}
			defer db.close(ctx)
			if db.pool, err = connectPool(ctx, server.URL()); err != nil {
				return err
			}
			if err := db.migrate(ctx); err != nil {
				return err
			}
			info := server.Info()
			fmt.Fprintf(a.Err, "PostgreSQL %s runs as process %d in %s\n", info.Version, info.PID, info.Folder)
			_, err = fmt.Fprintln(a.Out, server.URL())
			return err
		},
	}
}
