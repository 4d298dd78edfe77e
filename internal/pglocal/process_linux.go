package pglocal

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// serves reports whether the process is the PostgreSQL server of a data folder: a
// server's working folder is its data folder. A process that has ended and was not
// waited for yet has none.
func serves(pid int, data string) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	name, err := os.ReadFile(filepath.Join(proc, "comm"))
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	if err != nil {
		return exists(pid) // there is no /proc, or it is hidden
	}
	if name := strings.TrimSpace(string(name)); name != "postgres" && name != "postmaster" {
		return false
	}
	cwd, err := os.Stat(filepath.Join(proc, "cwd"))
	if errors.Is(err, os.ErrPermission) {
		return exists(pid)
	}
	if err != nil {
		return false
	}
	own, err := os.Stat(data)
	return err == nil && os.SameFile(cwd, own)
}

func exists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
