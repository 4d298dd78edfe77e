package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/internal/pglocal"
	"github.com/coppicehq/coppice/migrations"
)

// Exit codes. The help of the root command explains them; scripts rely on them.
const (
	exitOK          = 0
	exitFailed      = 1 // a negative answer, or any other failure
	exitUsage       = 2
	exitDatabase    = 3
	exitInterrupted = 130 // as shells have it: 128 + SIGINT
)

// errAnswered is a negative answer that the command has written down already.
var errAnswered = errors.New("the answer is negative")

// usageError says what is wrong with the command line.
type usageError struct {
	command string // as in "coppice tree show"
	problem string
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%s (see %s --help)", e.problem, e.command)
}

func usage(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{command: cmd.CommandPath(), problem: fmt.Sprintf(format, args...)}
}

// databaseError says why there is no database to work with, and what to do about it.
type databaseError struct {
	err  error
	next string // the next step; empty if the error names it
}

func (e *databaseError) Error() string {
	if e.next == "" {
		return e.err.Error()
	}
	return e.err.Error() + "; " + e.next
}

func (e *databaseError) Unwrap() error { return e.err }

// report prints what a command returned, unless it said it all itself, and returns the exit code.
func (a *App) report(err error) int {
	code := exitCode(err)
	if code != exitOK && code != exitInterrupted && !errors.Is(err, errAnswered) {
		text := strings.TrimPrefix(err.Error(), "coppice: ") // the packages below say so too
		fmt.Fprintln(a.Err, a.paint(a.ErrTerminal, red, "coppice:"), text)
	}
	return code
}

func exitCode(err error) int {
	var (
		wrongUsage *usageError
		noDatabase *databaseError
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &wrongUsage):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted // nothing but a signal cancels a command
	case errors.As(err, &noDatabase), unusable(err):
		return exitDatabase
	}
	return exitFailed
}

// unusable reports whether err says that the database cannot be reached, or has not the tables that
// this program needs.
func unusable(err error) bool {
	var (
		connect  *pgconn.ConnectError
		missing  *migrations.MissingError
		outdated *migrations.OutdatedError
		newer    *migrations.NewerError
		binaries *pglocal.NoBinariesError
		server   *pglocal.ServerError
	)
	if errors.As(err, &connect) || errors.As(err, &missing) || errors.As(err, &outdated) || errors.As(err, &newer) ||
		errors.As(err, &binaries) || errors.As(err, &server) || errors.Is(err, migrations.ErrSchemaName) {
		return true
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code[:min(2, len(pg.Code))] {
	case "08", "28", "57": // connection lost, not let in, shut down
		return pg.Code != "57014" // a statement that was cancelled or took too long
	}
	return false
}
