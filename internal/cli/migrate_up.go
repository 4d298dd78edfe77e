package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/migrations"
)

func (a *App) migrateUp(g *globals) *cobra.Command {
	var to int64
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Apply the migrations that are missing",
		Long: `Apply every migration that the schema does not have yet, in order, each in a transaction of its own. The schema
is created if it is not there. With nothing left to do it succeeds. A migration that fails leaves those
before it applied; mend the cause and run it again.`,
		Example: `  coppice migrate up
  coppice migrate up --schema jobs --database-url postgres://owner@db.example.com/app
  coppice migrate up --to 1`,
		Args: operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.migrator(ctx, g, func(db *database, m *migrations.Migrator) error {
				up := m.Up
				if cmd.Flags().Changed("to") {
					up = func(c context.Context) ([]migrations.Applied, error) { return m.UpTo(c, to) }
				}
				done, err := up(ctx)
				a.writeApplied("applied", done)
				if errors.Is(err, migrations.ErrUnknownVersion) {
					return usage(cmd, "--to: %v", err)
				}
				if err == nil && len(done) == 0 {
					fmt.Fprintf(a.Err, "nothing to do: schema %q has every migration that was asked for\n", db.schema)
				}
				return err
			})
		},
	}
	cmd.Flags().Int64Var(&to, "to", 0, "stop after this version (default: the newest)")
	return cmd
}
