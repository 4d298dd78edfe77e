package testdb

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// logPosition is a place in the server's log.
type logPosition struct {
	path   string // empty where the log cannot be read
	offset int64  // in bytes
}

// logPosition returns the end of the server's log.
func (s *server) logPosition() logPosition {
	if s.local == nil {
		return logPosition{}
	}
	p := logPosition{path: s.local.Info().Log}
	if info, err := os.Stat(p.path); err == nil {
		p.offset = info.Size()
	}
	return p
}

// ServerLog returns what the server has logged about the test's database since it
// was made. The log of a server that was not started by this package cannot be
// read: the test fails.
func (db *DB) ServerLog(t testing.TB) string {
	t.Helper()
	if db.log.path == "" {
		t.Fatalf("the log of the server in %s cannot be read from here", URLEnv)
	}
	text, err := db.log.read()
	if err != nil {
		t.Fatalf("read the server's log: %v", err)
	}
	return entriesOf(text, db.Name)
}

// AssertNoDeadlocks fails the test if the server has found a deadlock in the test's
// database. On a server that was not started by this package it goes by the server's
// statistics, which are a second late for connections that are still open.
func (db *DB) AssertNoDeadlocks(t testing.TB) {
	t.Helper()
	if db.log.path == "" {
		var deadlocks int
		// Reads one row of the statistics by database; no locks.
		err := db.Pool.QueryRow(context.Background(),
			`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks)
		if err != nil {
			t.Errorf("ask the server for deadlocks: %v", err)
		} else if deadlocks > 0 {
			t.Errorf("the server counted %d deadlocks", deadlocks)
		}
		return
	}
	if log := db.ServerLog(t); strings.Contains(log, "deadlock detected") {
		t.Errorf("the server found a deadlock:\n%s", log)
	}
}

func (p logPosition) read() (string, error) {
	file, err := os.Open(p.path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(p.offset, io.SeekStart); err != nil {
		return "", err
	}
	text, err := io.ReadAll(file)
	return string(text), err
}

// entriesOf returns the entries of a log that are about one database. An entry is a
// line with a prefix and the lines after it that start with a tab.
func entriesOf(log, database string) string {
	mark := fmt.Sprintf(" db=%s,", database)
	var out strings.Builder
	ours := false
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "\t") {
			ours = strings.Contains(line, mark)
		}
		if ours {
			out.WriteString(line)
		}
	}
	return out.String()
}
