//go:build unix

package pglocal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// ownFolder refuses a folder that is a link, or that belongs to another account,
// which could make us write wherever it likes.
func ownFolder(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("pglocal: look at the database's folder: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("pglocal: %s is in the way: it is not a folder", path)
	}
	if owner := ownerOf(info); owner != os.Geteuid() {
		return fmt.Errorf("pglocal: %s belongs to %s and this program runs as %s: set %s to a folder of your own",
			path, accountName(owner), accountName(os.Geteuid()), CacheDirEnv)
	}
	return nil
}

// safeBase refuses a base folder in which another account could swap root's files, or
// the programs fetched, for its own. So may none of the folders that it is in. Others
// than root only have their own to lose. What does not exist yet is safe.
func safeBase(base string) error {
	if !runningAsRoot() {
		return nil
	}
	for folder := base; ; folder = filepath.Dir(folder) {
		resolved, err := filepath.EvalSymlinks(folder)
		if errors.Is(err, os.ErrNotExist) && folder != filepath.Dir(folder) {
			continue
		}
		if err != nil {
			return fmt.Errorf("pglocal: look at the folder for databases: %w", err)
		}
		folder = resolved
		info, err := os.Stat(folder)
		if err != nil {
			return fmt.Errorf("pglocal: look at the folder for databases: %w", err)
		}
		if owner := ownerOf(info); owner != 0 {
			return fmt.Errorf("pglocal: %s belongs to %s: root keeps a database only in a folder of its own", folder, accountName(owner))
		}
		if info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0 {
			return fmt.Errorf("pglocal: others may write to %s: root keeps a database only in a folder that is closed to them", folder)
		}
		if folder == filepath.Dir(folder) {
			return nil
		}
	}
}

// readPlain reads a file but follows no link. For root the data folder belongs to
// another account, which must not get to see root's files that way.
func readPlain(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(file)
}

func ownerOf(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

func accountName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "account " + strconv.Itoa(uid)
}
