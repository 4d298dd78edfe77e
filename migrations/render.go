package migrations

import (
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/mfridman/interpolate"
)

const (
	schemaVariable = "COPPICE_SCHEMA"

	// At the start of a string literal a single quote in the name has to be doubled
	// as well as a double quote, so the placeholder there becomes another variable.
	placeholderLiteral = `'"${COPPICE_SCHEMA:-coppice}"`
	literalVariable    = "COPPICE_SCHEMA_IN_LITERAL"
)

// script is a migration file taken apart, with the schema filled in.
type script struct {
	up, down string
	// noTransaction says that the file must not run inside a transaction.
	noTransaction bool
}

// parse takes a migration file apart and fills in the schema, by the rules that
// goose has for its annotations and for ENVSUB, but from its argument alone: the
// environment of the process plays no part.
func parse(text, schema string) (script, error) {
	name := strings.ReplaceAll(schema, `"`, `""`)
	env := interpolate.NewMapEnv(map[string]string{
		schemaVariable:  name,
		literalVariable: strings.ReplaceAll(name, `'`, `''`),
	})

	var (
		parsed   script
		expand   bool
		up, down strings.Builder
		section  *strings.Builder // nil before the first Up
	)
	for line := range strings.Lines(text) {
		switch annotation(line) {
		case "up":
			section = &up
			continue
		case "down":
			section = &down
			continue
		case "no transaction":
			parsed.noTransaction = true
			continue
		case "envsub on", "envsub off":
			expand = annotation(line) == "envsub on"
			continue
		}
		if section == nil {
			continue
		}
		if expand {
			expanded, err := fill(line, env)
			if err != nil {
				return script{}, err
			}
			line = expanded
		}
		section.WriteString(line)
	}
	parsed.up, parsed.down = strings.TrimSpace(up.String()), strings.TrimSpace(down.String())
	return parsed, nil
}

// annotation returns what follows "-- +goose" on line, in lower case, or the
// empty string if line is no annotation.
func annotation(line string) string {
	rest, ok := strings.CutPrefix(line, "-- +goose ")
	if !ok {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(rest))
}

// fill replaces the placeholders of one line, and "$$" by "$". It refuses any
// other variable: goose would put nothing in its place without a word, and a $tag$
// or a $1 that was meant for the server would be gone.
func fill(line string, env interpolate.Env) (string, error) {
	line = strings.ReplaceAll(line, placeholderLiteral, `'"${`+literalVariable+`:-coppice}"`)
	names, err := interpolate.Identifiers(line)
	if err != nil {
		return "", fmt.Errorf("a dollar sign for the server is written twice: %w in %q", err, line)
	}
	for _, name := range names {
		if name != schemaVariable && name != literalVariable {
			return "", fmt.Errorf("a dollar sign for the server is written twice: unknown variable %s in %q", name, line)
		}
	}
	return interpolate.Interpolate(env, line)
}

// gooseFile writes s as a migration file for goose, without ENVSUB.
//
// Each section is one statement block, sent to the server as a whole. goose finds
// the end of a statement by looking at its last line, and a schema name with "--"
// or ";" in it would mislead it. A file outside a transaction has to go statement
// by statement, and keeps its own blocks.
func (s script) gooseFile() string {
	if s.noTransaction {
		return "-- +goose NO TRANSACTION\n-- +goose Up\n" + s.up + "\n-- +goose Down\n" + s.down + "\n"
	}
	return "-- +goose Up\n" + block(s.up) + "-- +goose Down\n" + block(s.down)
}

// block wraps a section into one goose statement block, in place of its own.
func block(section string) string {
	return "-- +goose StatementBegin\n" + withoutBlocks(section) + "\n-- +goose StatementEnd\n"
}

// withoutBlocks returns section without the annotations that begin and end a
// statement block.
func withoutBlocks(section string) string {
	var b strings.Builder
	for line := range strings.Lines(section) {
		if a := annotation(line); a != "statementbegin" && a != "statementend" {
			b.WriteString(line)
		}
	}
	return b.String()
}

// rendered is the embedded files with one schema filled in.
type rendered struct{ schema string }

// Open opens a migration as goose should read it, or a folder as it is.
func (r rendered) Open(name string) (fs.File, error) {
	file, err := files.Open(name)
	if err != nil || !strings.HasSuffix(name, ".sql") {
		return file, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	parsed, err := parse(string(text), r.schema)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return renderedFile{File: file, text: strings.NewReader(parsed.gooseFile())}, nil
}

// renderedFile is a file of [rendered]: the embedded one with another content.
type renderedFile struct {
	fs.File
	text io.Reader
}

// Read reads the rendered text.
func (f renderedFile) Read(p []byte) (int, error) { return f.text.Read(p) }
