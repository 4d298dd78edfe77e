package pglocal

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// postmaster is what postmaster.pid says about the server that runs on a data
// folder, or that ran on it and was killed.
type postmaster struct {
	pid  int
	addr address

	version string // as in "15.18"; empty until the server was asked
}

func (f folder) pidFile() string { return filepath.Join(f.data(), "postmaster.pid") }

// postmaster reads postmaster.pid. It returns nil when there is none, or when the
// server has not written all of it yet.
func (f folder) postmaster() *postmaster {
	text, err := readPlain(f.pidFile())
	if err != nil {
		return nil
	}
	p := parsePostmaster(string(text))
	if p != nil && p.addr.socket == "" && f.usesSocket() {
		p.addr.socket = f.run() // a server that starts writes it down a little later
	}
	return p
}

// parsePostmaster reads the lines that matter: the process id, then the data folder,
// the time of start, the port, the first socket folder, and more.
func parsePostmaster(text string) *postmaster {
	lines := strings.Split(text, "\n")
	if len(lines) < 5 {
		return nil
	}
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 0 {
		return nil
	}
	port, err := strconv.Atoi(strings.TrimSpace(lines[3]))
	if err != nil {
		return nil
	}
	return &postmaster{pid: pid, addr: address{socket: strings.TrimSpace(lines[4]), port: port}}
}

// running returns the postmaster of the cluster if it runs, else nil.
func (f folder) running() *postmaster {
	p := f.postmaster()
	if p == nil || !serves(p.pid, f.data()) {
		return nil
	}
	return p
}

// clearStale removes what a killed server left behind and a new one would trip over.
// The caller holds the cluster's lock and knows that no server runs.
//
// PostgreSQL removes most of it itself, but not when the process id was given to
// another process of the same account since, for instance after a reboot.
func (f folder) clearStale(acc *account) error {
	for _, name := range []string{".s.PGSQL.%d", ".s.PGSQL.%d.lock"} {
		path := filepath.Join(f.run(), fmt.Sprintf(name, localPort))
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("pglocal: remove what a killed server left: %w", err)
		}
	}
	text, err := readPlain(f.pidFile())
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pglocal: read what a killed server left: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	// The file stays, for its shared memory id: with it the new server finds out
	// whether a child of the old one is still at work. A server takes its parent's
	// process id for a stale one.
	if err := f.replacePidFile(acc, strconv.Itoa(os.Getpid())+"\n"+rest); err != nil {
		return fmt.Errorf("pglocal: rewrite what a killed server left: %w", err)
	}
	return nil
}

// replacePidFile does not write through links: for root, the folder is another's.
func (f folder) replacePidFile(acc *account, text string) error {
	temp := f.pidFile() + ".new"
	if err := os.Remove(temp); err != nil && !os.IsNotExist(err) {
		return err
	}
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = acc.own(temp)
	}
	if err == nil {
		err = os.Rename(temp, f.pidFile())
	}
	return err
}
