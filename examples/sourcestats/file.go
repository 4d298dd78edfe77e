package sourcestats

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
)

// FileStats is what there is to know about one file.
type FileStats struct {
	Bytes        int64 `json:"bytes"`         // its size
	Lines        int64 `json:"lines"`         // a last line without a line feed included
	CommentLines int64 `json:"comment_lines"` // lines of comment and no code; 0 for a binary file
	Sum          Sum   `json:"sha256"`        // of the file's bytes
}

// pieceBytes is how much of a file is in memory at a time.
const pieceBytes = 64 << 10

// Measure reads the file at path once, from beginning to end, in bounded memory. A file with a NUL in it is binary:
// its line feeds are counted, comments it has none. Errors name the path.
func Measure(path string) (FileStats, error) {
	f, err := os.Open(path) //nolint:gosec // G304: reading files by their path is what it is for
	if err != nil {
		return FileStats{}, err
	}
	defer f.Close() //nolint:errcheck // It was only read.
	stats, err := measure(f, styleOf(path))
	if err != nil {
		return FileStats{}, fmt.Errorf("read %s: %w", path, err)
	}
	return stats, nil
}

func measure(r io.Reader, s style) (FileStats, error) {
	hash := sha256.New()
	counter := lineCounter{style: s}
	piece := make([]byte, pieceBytes)
	var size int64
	binary := false
	for {
		n, err := r.Read(piece)
		text := piece[:n]
		hash.Write(text) // never fails
		binary = binary || bytes.IndexByte(text, 0) >= 0
		if size == 0 {
			// A byte order mark is not text. Read gives at least its three bytes of a regular file.
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		counter.write(text)
		size += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return FileStats{}, err
		}
	}
	counter.close()
	stats := FileStats{Bytes: size, Lines: counter.lines, CommentLines: counter.comments, Sum: Sum(hash.Sum(nil))}
	if binary {
		stats.CommentLines = 0
	}
	return stats, nil
}
