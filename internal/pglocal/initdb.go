package pglocal

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// halfMade is how the folders start in which clusters are being made.
const halfMade = "making-"

// ensureData makes the data folder unless there is one. The caller holds the
// cluster's lock.
func (f folder) ensureData(ctx context.Context, o Options, b binaries, acc *account) error {
	switch major := f.major(); {
	case major == b.major:
		return nil
	case major != 0:
		return fmt.Errorf("pglocal: %s was made by PostgreSQL %d, and the program at hand is %s", f.data(), major, b.version)
	}
	if err := f.clearData(o.Unsafe); err != nil {
		return err
	}
	f.removeHalfMade()
	o.progress("making a database in %s", f)
	password, err := f.ensurePassword()
	if err != nil {
		return err
	}
	return f.makeData(ctx, o.Unsafe, b, acc, password)
}

// clearData removes an empty data folder, and one of tests. Anything else was not
// put there by this package, whose data folders come into being whole.
func (f folder) clearData(unsafe bool) error {
	err := os.Remove(f.data())
	switch {
	case err == nil || errors.Is(err, os.ErrNotExist):
		return nil
	case unsafe:
		if err := os.RemoveAll(f.data()); err != nil {
			return fmt.Errorf("pglocal: clear the data folder: %w", err)
		}
		return nil
	default:
		return fmt.Errorf("pglocal: %s is not empty and holds no PostgreSQL database: "+
			"move it away, or delete it with `coppice db reset`", f.data())
	}
}

// removeHalfMade removes what initdb left when it was killed. What cannot be removed
// does no harm, and is tried again next time.
func (f folder) removeHalfMade() {
	leftovers, _ := filepath.Glob(f.at(halfMade + "*")) // the only error is a bad pattern
	for _, path := range leftovers {
		_ = os.RemoveAll(path)
	}
}

// makeData runs initdb in a folder of its own and moves the data into place once it
// is whole, so that a data folder is never half made.
func (f folder) makeData(ctx context.Context, unsafe bool, b binaries, acc *account, password string) error {
	work, err := os.MkdirTemp(string(f), halfMade)
	if err != nil {
		return fmt.Errorf("pglocal: make a database: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // tried again by removeHalfMade
	pwfile := filepath.Join(work, "password")
	if err := os.WriteFile(pwfile, []byte(password+"\n"), 0o600); err != nil {
		return fmt.Errorf("pglocal: make a database: %w", err)
	}
	for _, path := range []string{pwfile, work} {
		if err := acc.own(path); err != nil {
			return fmt.Errorf("pglocal: make a database: %w", err)
		}
	}
	data := filepath.Join(work, "data")
	var failed error
	for _, locale := range locales(b.major) {
		args := append([]string{
			"--pgdata=" + data,
			"--username=" + superuser,
			"--pwfile=" + pwfile,
			"--auth=scram-sha-256", // not used by us, but by whoever starts this folder by hand
			"--encoding=UTF8",
			"--data-checksums",
		}, locale...)
		if unsafe {
			args = append(args, "--no-sync")
		}
		failed = initdb(ctx, b, acc, work, args)
		if failed == nil {
			break
		}
		if err := os.RemoveAll(data); err != nil {
			return errors.Join(failed, err)
		}
		if !errors.Is(failed, errLocale) {
			return failed
		}
	}
	if failed != nil {
		return failed
	}
	if err := os.Rename(data, f.data()); err != nil {
		return fmt.Errorf("pglocal: make a database: %w", err)
	}
	return nil
}

// locales are the arguments that choose a locale whose order is that of code points
// and whose letters are those of Unicode, best first, then the one that is always
// there. From version 17 PostgreSQL brings its own; before, it needs the system's,
// which macOS does not have.
func locales(major int) [][]string {
	var out [][]string
	if major >= 17 {
		out = append(out, []string{"--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"})
	}
	return append(out, []string{"--locale=C.UTF-8"}, []string{"--locale=C"})
}

// errLocale reports that the system lacks a locale.
var errLocale = errors.New("no such locale")

func initdb(ctx context.Context, b binaries, acc *account, folder string, args []string) error {
	cmd := exec.CommandContext(ctx, b.path("initdb"), args...)
	cmd.Dir = folder
	runAs(cmd, acc)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("pglocal: make a database: %w", context.Cause(ctx))
	case strings.Contains(out.String(), "invalid locale"), strings.Contains(out.String(), "encoding mismatch"):
		return fmt.Errorf("pglocal: make a database: %w: %w\n%s", errLocale, err, lastLines(out.String(), 10))
	default:
		return fmt.Errorf("pglocal: make a database with %s: %w\n%s", b.path("initdb"), err, lastLines(out.String(), 20))
	}
}

// ensurePassword returns the superuser's password, and makes one for a new cluster.
func (f folder) ensurePassword() (string, error) {
	password, err := f.readPassword()
	if !errors.Is(err, os.ErrNotExist) {
		return password, err
	}
	password = rand.Text()
	if err := writeFile(f.password(), password+"\n", 0o600); err != nil {
		return "", fmt.Errorf("pglocal: keep the database's password: %w", err)
	}
	return password, nil
}

func (f folder) readPassword() (string, error) {
	text, err := os.ReadFile(f.password())
	if err != nil {
		return "", fmt.Errorf("pglocal: read the database's password: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
