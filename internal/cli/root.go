package cli

import (
	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/migrations"
)

// The environment variables that stand in for global flags.
const (
	databaseEnv = "COPPICE_DATABASE_URL"
	schemaEnv   = "COPPICE_SCHEMA"
	cacheEnv    = "COPPICE_CACHE_DIR" // where the private PostgreSQL lives
)

// globals are the flags of every command.
type globals struct {
	databaseURL string
	schema      string
}

func (a *App) root() *cobra.Command {
	g := &globals{}
	root := &cobra.Command{
		Use:     "coppice",
		Version: thisBuild().Version, // for --version, which people try first
		Short:   "Operate Coppice, the job engine whose jobs form trees",
		Long: `Operate Coppice, the job engine for Go and PostgreSQL whose jobs form trees.

The database is the one that --database-url or COPPICE_DATABASE_URL names. Without either, coppice
runs a private PostgreSQL of its own, in your cache folder, for as long as a command needs it: see
"coppice db". A schema in the private server is migrated by itself; any other is only migrated by
"coppice migrate up".

Exit codes:
  0    done, and the answer is good
  1    the command's own negative answer (damage found, no such job, not confirmed), or it failed
  2    the command line is wrong
  3    the database cannot be reached, or its schema is not the one this program needs
  130  interrupted`,
		Example: `  coppice migrate up --database-url postgres://app@db.example.com/app
  coppice tree list --stalled
  coppice tree show 4711
  coppice doctor --json`,
		Args:          noSubcommand,
		RunE:          showHelp,
		SilenceErrors: true, // exit.go prints them
		SilenceUsage:  true,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&g.databaseURL, "database-url", "",
		"PostgreSQL to use, as a URL or key=value words (env "+databaseEnv+"; default: a private server)")
	flags.StringVar(&g.schema, "schema", "",
		"schema of Coppice's tables (env "+schemaEnv+`; default "`+migrations.DefaultSchema+`")`)
	root.SetFlagErrorFunc(wrongFlag)
	root.AddCommand(
		a.demo(g),
		a.bench(g),
		a.tree(g),
		a.job(g),
		a.queue(g),
		a.limit(g),
		a.doctor(g),
		a.migrate(g),
		a.db(g),
		a.version(),
	)
	return root
}

// group makes a command that only holds others.
func group(use, short, long, example string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Long:    long,
		Example: example,
		Args:    noSubcommand,
		RunE:    showHelp,
	}
	cmd.AddCommand(commands...)
	return cmd
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }
