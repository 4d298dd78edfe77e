package migrations

import (
	"fmt"
	"regexp"
	"strings"
)

// MissingError says that a schema has no tables of Coppice at all: nothing was
// ever applied to it, or it does not exist, or the name or the database is wrong.
type MissingError struct {
	// Schema is the schema that was looked at.
	Schema string
	// Want is the version this program needs.
	Want int64
}

// Error says what to run.
func (e *MissingError) Error() string {
	return fmt.Sprintf("schema %q has no Coppice tables, this program needs version %d: run `%s`",
		e.Schema, e.Want, upCommand(e.Schema))
}

// OutdatedError says that a schema is behind the program.
type OutdatedError struct {
	// Schema is the schema that was looked at.
	Schema string
	// Have is the version the schema is at; zero after everything was taken down.
	Have int64
	// Want is the version this program needs.
	Want int64
}

// Error says what to run.
func (e *OutdatedError) Error() string {
	return fmt.Sprintf("schema %q is at version %d, this program needs %d: run `%s`",
		e.Schema, e.Have, e.Want, upCommand(e.Schema))
}

// NewerError says that a schema is ahead of the program: a newer Coppice has
// migrated it.
type NewerError struct {
	// Schema is the schema that was looked at.
	Schema string
	// Have is the version the schema is at.
	Have int64
	// Want is the version this program needs.
	Want int64
}

// Error says what to do.
func (e *NewerError) Error() string {
	return fmt.Sprintf("schema %q is at version %d, this program knows none past %d: upgrade the program",
		e.Schema, e.Have, e.Want)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// upCommand is the command line that brings a schema up, fit for a shell. A command that
// named no schema would bring up another.
func upCommand(schema string) string {
	const up = "coppice migrate up"
	switch {
	case schema == DefaultSchema:
		return up
	case plainWord.MatchString(schema):
		return up + " --schema " + schema
	}
	return up + " --schema '" + strings.ReplaceAll(schema, "'", `'\''`) + "'"
}
