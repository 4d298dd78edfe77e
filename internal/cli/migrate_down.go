package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/migrations"
)

func (a *App) migrateDown(g *globals) *cobra.Command {
	var (
		to  int64
		yes bool
	)
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Take migrations back, with the data in what they made",
		Long: `Take back the migration that was applied last, or with --to all that come after a version; --to 0 takes back
everything. What a migration created is dropped with the data in it: taking back the first drops
all jobs. It says what it would take back and asks first.

You need it when an upgrade has to be undone, and then with the newer program: the older one does not know
what to take back.`,
		Example: `  coppice migrate down
  coppice migrate down --to 0 --yes`,
		Args: operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if to < 0 {
				return usage(cmd, "--to: %d is below 0, which takes back everything", to)
			}
			return a.migrator(ctx, g, func(db *database, m *migrations.Migrator) error {
				all, err := m.Status(ctx)
				if err != nil {
					return err
				}
				applied := slices.DeleteFunc(all, migrations.Status.Pending)
				if len(applied) == 0 {
					fmt.Fprintf(a.Err, "nothing to do: schema %q has no migrations\n", db.schema)
					return nil
				}
				if !cmd.Flags().Changed("to") {
					to = before(applied)
				}
				if err := a.confirm(cmd, yes, whatDown(db, applied, to)); err != nil {
					return err
				}
				done, err := m.DownTo(ctx, to)
				a.writeApplied("took back", done)
				if errors.Is(err, migrations.ErrUnknownVersion) {
					return usage(cmd, "--to: %v", err)
				}
				return err
			})
		},
	}
	cmd.Flags().Int64Var(&to, "to", 0, "take back all after this version (default: the last migration alone)")
	yesFlag(cmd, &yes)
	return cmd
}

// before returns the version that is left when the last of the applied migrations is taken back.
func before(applied []migrations.Status) int64 {
	if len(applied) < 2 {
		return 0
	}
	return applied[len(applied)-2].Version
}

// whatDown says what going down to a version destroys.
func whatDown(db *database, applied []migrations.Status, to int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "This takes back from schema %q of %s, with all data in what they made:\n", db.schema, db.where())
	for _, m := range slices.Backward(applied) {
		if m.Version > to {
			fmt.Fprintf(&b, "  %d, %s\n", m.Version, m.Name)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
