package migrations

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"

	"github.com/pressly/goose/v3"
)

//go:embed *.sql
var files embed.FS

// source is one migration as it is embedded.
type source struct {
	version int64
	name    string // the file's name
	text    string // as written, placeholders and all
}

// sources returns every embedded migration, in ascending order of version.
//
// It panics if a file cannot be read or has no version in its name, which only a
// mistake in this package can cause and its tests would catch.
func sources() []source {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		panic(fmt.Sprintf("migrations: list the embedded files: %v", err))
	}
	all := make([]source, 0, len(names))
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			panic(fmt.Sprintf("migrations: version of %s: %v", name, err))
		}
		text, err := files.ReadFile(name)
		if err != nil {
			panic(fmt.Sprintf("migrations: read %s: %v", name, err))
		}
		all = append(all, source{version: version, name: name, text: string(text)})
	}
	slices.SortFunc(all, func(a, b source) int { return cmp.Compare(a.version, b.version) })
	return all
}

// Latest returns the version of the newest migration: the one that this build of
// Coppice needs.
func Latest() int64 {
	all := sources()
	return all[len(all)-1].version
}

// Hash returns a hexadecimal digest of the names and contents of all migrations.
// Two builds with the same hash make the same tables, so it can name a template
// database that tests are cloned from.
func Hash() string {
	digest := sha256.New()
	for _, s := range sources() {
		// The lengths keep "ab" + "c" apart from "a" + "bc". A hash never fails to write.
		fmt.Fprintf(digest, "%d %s %d %s\n", len(s.name), s.name, len(s.text), s.text)
	}
	return hex.EncodeToString(digest.Sum(nil))
}
