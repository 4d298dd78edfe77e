package cli

import (
	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/migrations"
)

func (a *App) migratePrint(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "print",
		Short: "Print the SQL that makes the tables",
		Long: `Print the SQL that brings an empty database to the newest version, for people who may not, or do not want to,
let a program make tables: to be read, run with psql, or put into another migration tool. It records the
versions as "migrate up" does. No database is needed.`,
		Example: `  coppice migrate print > coppice.sql
  coppice migrate print --schema jobs | psql -v ON_ERROR_STOP=1 app`,
		Args: operands(),
		RunE: func(*cobra.Command, []string) error {
			return migrations.Print(a.Out, a.schema(g))
		},
	}
}
