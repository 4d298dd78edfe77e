package pglocal

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// folder is the path of a cluster folder; the package comment says what is in it.
type folder string

func clusterFolder(base string, major int, unsafe bool) folder {
	name := "pg" + strconv.Itoa(major)
	if unsafe {
		name += "-unsafe"
	}
	return folder(filepath.Join(base, name))
}

func (f folder) at(name string) string { return filepath.Join(string(f), name) }

func (f folder) data() string     { return f.at("data") }
func (f folder) run() string      { return f.at("run") }
func (f folder) users() string    { return f.at("users") }
func (f folder) lock() string     { return f.at("lock") }
func (f folder) keep() string     { return f.at("keep") }
func (f folder) password() string { return f.at("password") }
func (f folder) config() string   { return f.at("postgresql.conf") }
func (f folder) hba() string      { return f.at("pg_hba.conf") }
func (f folder) log() string      { return f.at("server.log") }

// major returns the version that made the cluster, and 0 when there is none.
func (f folder) major() int {
	text, err := os.ReadFile(filepath.Join(f.data(), "PG_VERSION"))
	if err != nil {
		return 0
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return major
}

// kept reports whether the server is to outlive the programs that use it.
func (f folder) kept() bool {
	_, err := os.Stat(f.keep())
	return err == nil
}

// prepare makes the base folder and the cluster folder, and refuses folders that
// another account could tamper with.
func (f folder) prepare() error {
	base := filepath.Dir(string(f))
	if err := os.MkdirAll(base, 0o755); err != nil {
		return fmt.Errorf("pglocal: make the folder for databases: %w", err)
	}
	// Once more, now that it exists.
	if err := safeBase(base); err != nil {
		return err
	}
	for _, made := range []struct {
		path string
		mode os.FileMode
	}{
		{string(f), folderMode()},
		{f.users(), 0o700},
	} {
		if err := os.Mkdir(made.path, made.mode); err != nil && !os.IsExist(err) {
			return fmt.Errorf("pglocal: make the database's folder: %w", err)
		}
		if err := ownFolder(made.path); err != nil {
			return err
		}
		// Mkdir's mode went through the umask, and an old folder has the mode it had.
		if err := os.Chmod(made.path, made.mode); err != nil {
			return fmt.Errorf("pglocal: close the database's folder to others: %w", err)
		}
	}
	return nil
}

// folderMode is the mode of a cluster folder. Root's must let the account that runs
// the server pass; what is private in it has a mode of its own.
func folderMode() os.FileMode {
	if runningAsRoot() {
		return 0o755
	}
	return 0o700
}
