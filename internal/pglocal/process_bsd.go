//go:build unix && !linux

package pglocal

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// serves reports whether the process is the PostgreSQL server of a data folder, as
// far as its command line tells.
func serves(pid int, data string) bool {
	//nolint:noctx // ps does not wait for anything
	out, err := exec.Command("ps", "-ww", "-o", "stat=,command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false // no such process
	}
	state, command, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	program, _, _ := strings.Cut(strings.TrimSpace(command), " -D ")
	return !strings.HasPrefix(state, "Z") &&
		filepath.Base(program) == "postgres" && strings.Contains(command, data)
}
