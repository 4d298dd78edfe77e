package pglocal

import (
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	logLimit   = 16 * mib // a log beyond this is put aside at the next start
	tailLines  = 20       // of the log, in an error
	tailLength = 8 << 10  // bytes of the log that the lines are taken from
)

// openLog opens the server's log for appending and returns how long it is. The
// server inherits the open file, so its account needs no right to it.
func (f folder) openLog() (*os.File, int64, error) {
	if info, err := os.Stat(f.log()); err == nil && info.Size() > logLimit {
		if err := os.Rename(f.log(), f.log()+".1"); err != nil {
			return nil, 0, fmt.Errorf("pglocal: put the old log aside: %w", err)
		}
	}
	file, err := os.OpenFile(f.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("pglocal: open the server's log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, 0, fmt.Errorf("pglocal: open the server's log: %w", err)
	}
	return file, info.Size(), nil
}

// logTail returns the last lines that were logged after offset.
func (f folder) logTail(offset int64) string {
	file, err := os.Open(f.log())
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	offset = max(offset, info.Size()-tailLength)
	text, err := io.ReadAll(io.NewSectionReader(file, offset, info.Size()-offset))
	if err != nil {
		return ""
	}
	return lastLines(string(text), tailLines)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
