package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/migrations"
)

// migrateStatusJSON is what "migrate status --json" answers.
type migrateStatusJSON struct {
	Schema     string          `json:"schema"`
	Current    bool            `json:"current"`           // the schema is what this program needs
	Problem    string          `json:"problem,omitempty"` // why it is not
	Migrations []migrationJSON `json:"migrations"`
}

func (a *App) migrateStatus(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which migrations are applied",
		Long: `Show this program's migrations and when each was applied to the schema. Nothing is changed, and a schema that
does not exist is shown as one without migrations. The exit code is 0 if the schema is the one that this
program needs and 1 if it is not, so that a deployment can ask first.`,
		Example: `  coppice migrate status
  coppice migrate status --json || coppice migrate up`,
		Args: operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.migrator(ctx, g, func(db *database, m *migrations.Migrator) error {
				all, err := m.Status(ctx)
				if err != nil {
					return err
				}
				problem := m.Check(ctx)
				if problem != nil && !wrongVersion(problem) {
					return problem
				}
				return a.writeMigrations(db.schema, all, problem, asJSON)
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *App) writeMigrations(schema string, all []migrations.Status, problem error, asJSON bool) error {
	answer := migrateStatusJSON{Schema: schema, Current: problem == nil, Migrations: []migrationJSON{}}
	t := a.newTable("version>", "name~", "applied at")
	for _, m := range all {
		line := migrationJSON{Version: m.Version, Name: m.Name}
		at := "not yet"
		if !m.Pending() {
			line.Applied = m.AppliedAt.UTC().Format(time.RFC3339)
			at = m.AppliedAt.UTC().Format(time.DateTime) + " UTC"
		}
		answer.Migrations = append(answer.Migrations, line)
		t.AppendRow(table.Row{m.Version, m.Name, at})
	}
	var err error
	switch {
	case asJSON && problem != nil:
		answer.Problem = problem.Error()
		fallthrough
	case asJSON:
		err = a.writeJSON(answer)
	default:
		err = a.writeTable(t)
	}
	if err != nil || problem == nil {
		return err
	}
	if !asJSON {
		fmt.Fprintln(a.Err, problem)
	}
	return errAnswered
}

// wrongVersion reports whether err is a schema's answer and not a failure to ask.
func wrongVersion(err error) bool {
	var (
		missing  *migrations.MissingError
		outdated *migrations.OutdatedError
		newer    *migrations.NewerError
	)
	return errors.As(err, &missing) || errors.As(err, &outdated) || errors.As(err, &newer)
}
