package pglocal

import (
	"context"
	"os/exec"
	"syscall"
)

// account is nil here: the server runs as the program's own account.
type account struct{}

// runningAsRoot is never so: pg_ctl itself drops an administrator's rights.
func runningAsRoot() bool { return false }

func serverAccount(context.Context, folder, binaries) (*account, error) { return nil, nil }

// own has nothing to do: there is only the program's own account.
func (a *account) own(string) error { return nil }

// runAs detaches cmd from the console, so that a Ctrl-C there does not reach it.
func runAs(cmd *exec.Cmd, _ *account) {
	cmd.Env = serverEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
