//go:build unix

package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// account is the operating system's account that the server runs as. Nil means the
// program's own.
type account struct {
	name     string
	uid, gid uint32
}

func runningAsRoot() bool { return os.Geteuid() == 0 }

// accounts are who may run root's server, best first. They are there on most
// systems and can log in nowhere.
func accounts() []string { return []string{"postgres", "_postgres", "pgsql", "nobody", "daemon"} }

// serverAccount chooses who runs the server of the cluster f. A cluster that exists
// keeps its owner, since PostgreSQL insists on owning its data.
func serverAccount(ctx context.Context, f folder, b binaries) (*account, error) {
	if !runningAsRoot() {
		return nil, nil
	}
	if f.major() != 0 {
		info, err := os.Stat(f.data())
		if err != nil {
			return nil, fmt.Errorf("pglocal: look at the data folder: %w", err)
		}
		owner := ownerOf(info)
		if owner == 0 {
			return nil, fmt.Errorf("pglocal: %s belongs to root, and PostgreSQL does not run as root: give it to another account with chown -R", f.data())
		}
		u, err := user.LookupId(strconv.Itoa(owner))
		if err != nil {
			return nil, fmt.Errorf("pglocal: find the owner of %s: %w", f.data(), err)
		}
		acc, err := newAccount(u)
		if err != nil {
			return nil, err
		}
		return acc, acc.probe(ctx, f, b)
	}
	var refused []error
	for _, name := range accounts() {
		u, err := user.Lookup(name)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		acc, err := newAccount(u)
		if err != nil || acc.uid == 0 {
			continue
		}
		if err := acc.probe(ctx, f, b); err != nil {
			refused = append(refused, err)
			continue
		}
		return acc, nil
	}
	return nil, fmt.Errorf("pglocal: PostgreSQL does not run as root, and none of the accounts %s can run it here: "+
		"make one with `useradd --system postgres`, or run this program as another user: %w",
		strings.Join(accounts(), ", "), errors.Join(refused...))
}

func newAccount(u *user.User) (*account, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("pglocal: read the account %s: %w", u.Username, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("pglocal: read the account %s: %w", u.Username, err)
	}
	return &account{name: u.Username, uid: uint32(uid), gid: uint32(gid)}, nil
}

// probe runs a program of b inside f as the account, which tells more surely than
// any look at modes whether it may.
func (a *account) probe(ctx context.Context, f folder, b binaries) error {
	cmd := exec.CommandContext(ctx, b.path("postgres"), "--version")
	cmd.Dir = string(f)
	runAs(cmd, a)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("pglocal: %s cannot run %s in %s: %w", a.name, b.path("postgres"), f, err)
	}
	return nil
}

// own gives a folder to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// runAs makes cmd run as the account, in a session of its own, so that a Ctrl-C at
// the terminal does not reach it, and with an environment that holds nothing of
// ours: any process of that account can read it.
func runAs(cmd *exec.Cmd, a *account) {
	cmd.Env = serverEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
}
