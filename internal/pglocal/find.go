package pglocal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// binaries is a folder with the programs of one PostgreSQL version.
type binaries struct {
	folder  string
	version string // as in "15.18" or "18beta2"
	major   int
}

func (b binaries) path(program string) string {
	return filepath.Join(b.folder, executable(program))
}

func executable(program string) string {
	if runtime.GOOS == "windows" {
		return program + ".exe"
	}
	return program
}

// places is where binaries are looked for.
type places struct {
	path     string   // a list of folders, as in $PATH
	pgConfig string   // the pg_config program to ask; empty means none
	globs    []string // patterns of folders
}

func usualPlaces(base string) places {
	p := places{
		path: os.Getenv("PATH"),
		globs: []string{
			"/usr/lib/postgresql/*/bin",                                  // Debian
			"/usr/pgsql-*/bin",                                           // RPM from postgresql.org
			"/opt/homebrew/opt/postgresql*/bin",                          // Homebrew, Apple silicon
			"/usr/local/opt/postgresql*/bin",                             // Homebrew, Intel
			"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",             // Homebrew, Linux
			"/Applications/Postgres.app/Contents/Versions/*/bin",         // Postgres.app
			"/Library/PostgreSQL/*/bin",                                  // EDB installer, macOS
			"/usr/local/pgsql/bin",                                       // built from source
			filepath.Join(os.Getenv("ProgramFiles"), `PostgreSQL\*\bin`), // EDB installer, Windows
			filepath.Join(downloads(base), "*", "bin"),                   // fetched earlier
		},
	}
	if runtime.GOOS != "windows" {
		p.globs = slices.DeleteFunc(p.globs, func(g string) bool { return strings.Contains(g, `\`) })
	}
	if found, err := exec.LookPath("pg_config"); err == nil {
		p.pgConfig = found
	}
	return p
}

// described lists the places for a person to read.
func (p places) described() []string {
	out := []string{"the folders of PATH"}
	if p.pgConfig != "" {
		out = append(out, p.pgConfig+" --bindir")
	} else {
		out = append(out, "pg_config --bindir (there is no pg_config)")
	}
	return append(out, p.globs...)
}

// find returns the binaries of every supported version, newest first. Where a
// version is there twice, the place that is named first in p comes first.
func find(ctx context.Context, p places) []binaries {
	var found []binaries
	seen := map[string]bool{}
	for _, folder := range p.folders(ctx) {
		folder, ok := serverFolder(folder)
		if !ok || seen[folder] {
			continue
		}
		seen[folder] = true
		b, err := inspect(ctx, folder)
		if err != nil || b.major < oldestMajor || b.major > newestMajor {
			continue
		}
		found = append(found, b)
	}
	slices.SortStableFunc(found, func(a, b binaries) int { return b.major - a.major })
	return found
}

func (p places) folders(ctx context.Context) []string {
	out := filepath.SplitList(p.path)
	if p.pgConfig != "" {
		if bindir, err := exec.CommandContext(ctx, p.pgConfig, "--bindir").Output(); err == nil {
			out = append(out, strings.TrimSpace(string(bindir)))
		}
	}
	for _, glob := range p.globs {
		matches, _ := filepath.Glob(glob) // the only error is a bad pattern, and these are fixed
		out = append(out, matches...)
	}
	return out
}

// serverFolder resolves links, since the programs find their libraries from the
// folder that they are really in, and reports whether all that is needed is there.
func serverFolder(folder string) (string, bool) {
	if !filepath.IsAbs(folder) {
		return "", false
	}
	postgres, err := filepath.EvalSymlinks(filepath.Join(folder, executable("postgres")))
	if err != nil {
		return "", false
	}
	folder = filepath.Dir(postgres)
	for _, program := range []string{"initdb", "postgres", "pg_ctl"} {
		if _, err := exec.LookPath(filepath.Join(folder, executable(program))); err != nil {
			return "", false
		}
	}
	return folder, true
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) ((\d+)\S*)`)

// inspect asks the server program in folder for its version.
func inspect(ctx context.Context, folder string) (binaries, error) {
	b := binaries{folder: folder}
	out, err := exec.CommandContext(ctx, b.path("postgres"), "--version").Output()
	if err != nil {
		return b, fmt.Errorf("pglocal: ask %s for its version: %w", b.path("postgres"), err)
	}
	m := versionPattern.FindSubmatch(out)
	if m == nil {
		return b, fmt.Errorf("pglocal: %s is not PostgreSQL: it says %q", b.path("postgres"), out)
	}
	b.version = string(m[1])
	b.major, err = strconv.Atoi(string(m[2]))
	return b, err
}
