package migrations

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// DefaultSchema is the schema that Coppice uses where none is named.
const DefaultSchema = "coppice"

// maxSchemaBytes is the longest name PostgreSQL keeps (NAMEDATALEN - 1). The
// server cuts a longer one short in silence, and two names could meet.
const maxSchemaBytes = 63

// ErrSchemaName is in the chain of every error about a schema name that cannot
// be used.
var ErrSchemaName = errors.New("invalid schema name")

// ValidSchema reports whether name can be the schema of Coppice. Any PostgreSQL
// identifier of 1 to 63 bytes can, also with capitals, spaces, quotes or letters
// outside ASCII, and it is taken literally. Refused, with [ErrSchemaName] in the
// chain: an empty or longer name, a name with a control character (NUL, line
// breaks) or with invalid UTF-8, and the prefix pg_, which the server reserves.
func ValidSchema(name string) error {
	refuse := func(why string) error { return fmt.Errorf("%w %q: %s", ErrSchemaName, name, why) }
	switch {
	case name == "":
		return refuse("it is empty")
	case len(name) > maxSchemaBytes:
		return refuse(fmt.Sprintf("it has %d bytes, and PostgreSQL keeps %d", len(name), maxSchemaBytes))
	case !utf8.ValidString(name):
		return refuse("it is not valid UTF-8")
	case strings.ContainsFunc(name, unicode.IsControl):
		return refuse("it has a control character")
	case strings.HasPrefix(name, "pg_"):
		return refuse("PostgreSQL reserves the prefix pg_")
	}
	return nil
}

// quote returns name as a quoted SQL identifier.
func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// versionTable returns the quoted, schema-qualified name of the table that goose
// keeps its versions in.
func versionTable(schema string) string {
	return pgx.Identifier{schema, "goose_db_version"}.Sanitize()
}
