package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/migrations"
)

func (a *App) migrate(g *globals) *cobra.Command {
	return group("migrate",
		"Bring the schema to this program's version",
		`Bring Coppice's tables, which live in one schema of your database, to the version that this program needs.

Run "migrate up" once before the first program starts, and again with every upgrade, before the new
programs start. It is safe to run it from many machines at once: one does the work, the others wait.
Programs that find a schema of another version refuse to start.`,
		`  coppice migrate status
  coppice migrate up
  coppice migrate print | less`,
		a.migrateUp(g),
		a.migrateDown(g),
		a.migrateStatus(g),
		a.migratePrint(g),
	)
}

// migrator connects and calls do with the migrator of the schema, whatever version it is at.
func (a *App) migrator(ctx context.Context, g *globals, do func(*database, *migrations.Migrator) error) error {
	db, err := a.connect(ctx, g)
	if err != nil {
		return err
	}
	defer db.close(ctx)
	m, err := migrations.ForPool(db.pool, db.schema)
	if err != nil {
		return err
	}
	return do(db, m)
}

// migrationJSON is one migration in the answers of "migrate".
type migrationJSON struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied string `json:"applied_at,omitempty"` // empty: it is not applied
}

// writeApplied says what a migration did. It is progress, not an answer, hence not on stdout.
func (a *App) writeApplied(verb string, done []migrations.Applied) {
	for _, m := range done {
		fmt.Fprintf(a.Err, "%s %d, %s, in %s\n", verb, m.Version, m.Name, duration(m.Took))
	}
}
