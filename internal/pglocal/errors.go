package pglocal

import (
	"fmt"
	"strconv"
	"strings"
)

// NoBinariesError reports that no PostgreSQL server is installed and that none
// could be fetched.
type NoBinariesError struct {
	Major   int      // the major version that was wanted; zero means any that is supported
	Looked  []string // where the binaries were looked for
	Cluster string   // the data folder that needs this version; empty when none does
	Fetch   error    // why they could not be fetched
}

// Error says what was looked for, where, and how to install it.
func (e *NoBinariesError) Error() string {
	var b strings.Builder
	wanted := fmt.Sprintf("%d to %d", oldestMajor, newestMajor)
	major := strconv.Itoa(newestMajor)
	if e.Major != 0 {
		wanted = strconv.Itoa(e.Major)
		major = wanted
	}
	if e.Cluster != "" {
		fmt.Fprintf(&b, "the database in %s was made by PostgreSQL %d, which is not installed any more\n", e.Cluster, e.Major)
	} else {
		fmt.Fprintf(&b, "no PostgreSQL server found (version %s; initdb, postgres and pg_ctl in one folder)\n", wanted)
	}
	b.WriteString("looked in:\n")
	for _, place := range e.Looked {
		fmt.Fprintf(&b, "  %s\n", place)
	}
	fmt.Fprintf(&b, "and could not fetch it: %v\n", e.Fetch)
	b.WriteString("install it:\n")
	if e.Major == 0 {
		b.WriteString("  Debian, Ubuntu   sudo apt install postgresql\n")
		b.WriteString("  Fedora, RHEL     sudo dnf install postgresql-server\n")
	} else {
		fmt.Fprintf(&b, "  Debian, Ubuntu   sudo apt install postgresql-%s\n", major)
		fmt.Fprintf(&b, "  Fedora, RHEL     sudo dnf install postgresql%s-server\n", major)
	}
	fmt.Fprintf(&b, "  macOS            brew install postgresql@%s\n", major)
	if e.Cluster != "" {
		b.WriteString("or start afresh with `coppice db reset`, which deletes that database with all the jobs in it")
	} else {
		b.WriteString("or point the program at a server that you have")
	}
	return b.String()
}

// Unwrap returns the failure of the download.
func (e *NoBinariesError) Unwrap() error { return e.Fetch }

// InUseError reports that Stop or Reset was refused because programs use the server.
type InUseError struct {
	Users []User // the programs, by ascending process id
}

// Error names the programs.
func (e *InUseError) Error() string {
	names := make([]string, len(e.Users))
	for i, u := range e.Users {
		names[i] = fmt.Sprintf("%s (process %d)", u.Program, u.PID)
	}
	return "the database is in use by " + strings.Join(names, ", ")
}

// ServerError reports that the server was started and did not come up.
type ServerError struct {
	Err error  // what went wrong, as seen from here
	Log string // the end of what the server logged meanwhile
	At  string // the path of the whole log
}

// Error includes the end of the log.
func (e *ServerError) Error() string {
	if e.Log == "" {
		return fmt.Sprintf("PostgreSQL did not start: %v (its log, %s, says nothing)", e.Err, e.At)
	}
	return fmt.Sprintf("PostgreSQL did not start: %v\nend of its log, %s:\n%s", e.Err, e.At, e.Log)
}

// Unwrap returns what went wrong.
func (e *ServerError) Unwrap() error { return e.Err }
