package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// CacheDirEnv names the environment variable that overrides the base folder.
const CacheDirEnv = "COPPICE_CACHE_DIR"

// The oldest and newest major versions of PostgreSQL that are run.
const (
	oldestMajor = 14
	newestMajor = 18
)

// defaultStartTimeout covers the replay of the largest log that max_wal_size allows
// on a slow disk.
const defaultStartTimeout = 2 * time.Minute

// Options says which cluster is meant and how it runs. The zero value is the
// durable cluster in the user's cache folder.
type Options struct {
	// Folder is the base folder, which holds one folder for each cluster. Empty means
	// $COPPICE_CACHE_DIR, or else the user's cache folder (for root, a folder in
	// /var/cache or /var/tmp that another account can read).
	Folder string

	// Major is the major version of PostgreSQL, 14 to 18. Zero means that of the
	// newest cluster there is or, when there is none, of the newest binaries found.
	Major int

	// Unsafe gives up durability for speed: the data does not survive a crash of the
	// machine. It is for tests, and has a data folder of its own.
	Unsafe bool

	// StartTimeout bounds the wait for the server to accept connections, which
	// includes the replay of its log after a crash. Zero means two minutes.
	StartTimeout time.Duration

	// Force lets Stop and Reset go ahead while other programs use the server.
	// Nothing else reads it.
	Force bool

	// Progress is told about steps that take long enough for a person to wonder, such
	// as a download. Nil means nobody is told. It is called from the caller's goroutine.
	Progress func(step string)

	places *places   // where binaries are looked for; nil means the usual places
	fetch  fetchFunc // gets binaries that are not installed; nil means from the network
}

// fetchFunc puts the binaries of a major version below folder and returns the
// folder that has them.
type fetchFunc func(ctx context.Context, major int, folder string) (bin string, err error)

func (o Options) progress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

func (o Options) startTimeout() time.Duration {
	if o.StartTimeout > 0 {
		return o.StartTimeout
	}
	return defaultStartTimeout
}

func (o Options) validate() error {
	if o.Major != 0 && (o.Major < oldestMajor || o.Major > newestMajor) {
		return fmt.Errorf("pglocal: PostgreSQL %d is not supported: use %d to %d", o.Major, oldestMajor, newestMajor)
	}
	return nil
}

// base returns the absolute path of the base folder, which need not exist.
func (o Options) base() (string, error) {
	for _, folder := range []string{o.Folder, os.Getenv(CacheDirEnv)} {
		if folder != "" {
			return filepath.Abs(folder)
		}
	}
	if runningAsRoot() {
		return rootBase(), nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", errors.New("pglocal: there is no cache folder to keep a database in: set " + CacheDirEnv + " to a folder of your own")
	}
	return filepath.Join(cache, "coppice"), nil
}

// rootBase is root's base folder. Root's own cache folder will not do: the account
// that runs the server cannot enter /root.
func rootBase() string {
	if info, err := os.Stat("/var/cache"); err == nil && info.IsDir() {
		return "/var/cache/coppice"
	}
	return "/var/tmp/coppice-0"
}
