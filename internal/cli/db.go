package cli

import "github.com/spf13/cobra"

func (a *App) db(g *globals) *cobra.Command {
	return group("db",
		"Run the private PostgreSQL",
		`Run the PostgreSQL that coppice uses when neither --database-url nor COPPICE_DATABASE_URL names another.

It is for trying things out and for tests. Its data is in your cache folder (or where COPPICE_CACHE_DIR
says), it listens on a unix socket that only you can reach, and it starts and stops by itself with the
commands that need it. "coppice db start" keeps it up, so that other programs can use it, until "coppice db
stop". These commands are about the private server alone, whatever --database-url says.`,
		`  export COPPICE_DATABASE_URL=$(coppice db start)
  psql "$COPPICE_DATABASE_URL"
  coppice db stop`,
		a.dbPath(),
		a.dbStart(g),
		a.dbStop(),
		a.dbStatus(),
		a.dbReset(),
	)
}
