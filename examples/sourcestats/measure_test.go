package sourcestats_test

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/examples/sourcestats"
)

// write makes a file of that name and content, and returns its path.
func write(t *testing.T, folder, name, content string) string {
	t.Helper()
	path := filepath.Join(folder, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestMeasureCountsLinesAndCommentLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, content   string
		lines, comments int64
	}{
		"an empty file has no lines":                      {"a.go", "", 0, 0},
		"a line feed alone is a line":                     {"a.go", "\n", 1, 0},
		"a last line needs no line feed":                  {"a.go", "package a\n// b", 2, 1},
		"CRLF ends one line":                              {"a.go", "// a\r\n\r\nb\r\n", 3, 1},
		"a carriage return alone ends none":               {"a.go", "// a\rb\r", 1, 1},
		"a byte order mark is not code":                   {"a.go", "\xef\xbb\xbf// a\n", 1, 1},
		"a comment may be indented":                       {"a.go", "\t // a\n", 1, 1},
		"a comment behind code is none":                   {"a.go", "a := 1 // b\n", 1, 0},
		"a lone slash is code":                            {"a.go", "/\n/ /\n/", 3, 0},
		"a block spans lines":                             {"a.go", "/* a\nb\n*/\nc\n", 4, 3},
		"blank lines in a block do not count":             {"a.go", "/*\n\n \t\na\n*/\n", 5, 3},
		"a block may end and start again in a line":       {"a.go", "/* a */ /* b\n*/ // c\n", 2, 2},
		"code after a block makes the line code":          {"a.go", "/* a */ b\n/* a\n*/ b\n", 3, 1},
		"a slash does not close the block it opened":      {"a.go", "/*/\na\n*/\n", 3, 3},
		"stars may pile up at the end of a block":         {"a.go", "/***\n***/\nb\n", 3, 2},
		"a mark does not reach over a line's end":         {"a.go", "/*\n*\n/\n*/\nb\n", 5, 4},
		"a glob in a string opens no block":               {"a.go", "a := \"b/*\"\nc\n", 2, 0},
		"hash languages":                                  {"a.py", "#!/usr/bin/python\n# a\nb # c\n// d\n", 4, 2},
		"names without an extension":                      {"Makefile", "# a\nall:\n", 2, 1},
		"extensions in capitals":                          {"A.GO", "// a\n", 1, 1},
		"SQL has dashes and blocks":                       {"a.sql", "-- a\n- b\n/* c\n*/ SELECT 1;\n", 4, 2},
		"HTML has blocks only":                            {"a.html", "<!-- a\n-- b --->\n<p>\n// c\n", 4, 2},
		"an unknown language has no comments":             {"a.xyz", "// a\n# b\n-- c\n", 3, 0},
		"a binary file has lines and no comments":         {"a.go", "// a\n\x00\n// b", 3, 0},
		"a NUL far into the file makes it binary as well": {"a.go", strings.Repeat("// a\n", 50_000) + "\x00", 50_001, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := sourcestats.Measure(write(t, t.TempDir(), c.file, c.content))
			require.NoError(t, err)
			require.Equal(t, c.lines, got.Lines, "lines")
			require.Equal(t, c.comments, got.CommentLines, "comment lines")
			require.Equal(t, int64(len(c.content)), got.Bytes)
			require.Equal(t, sourcestats.Sum(sha256.Sum256([]byte(c.content))), got.Sum)
		})
	}
}

func TestMeasureTakesLinesOfTenMegabytes(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("x"), 10<<20)
	content := "// " + string(long) + "\n" + string(long) + "\n/*" + string(long) + "*/"
	path := write(t, t.TempDir(), "a.go", content)
	got, err := sourcestats.Measure(path)
	require.NoError(t, err)
	require.Equal(t, int64(3), got.Lines)
	require.Equal(t, int64(2), got.CommentLines)
	require.Equal(t, int64(len(content)), got.Bytes)
}

func TestMeasureNamesTheFileItCannotRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gone.go")
	_, err := sourcestats.Measure(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, path)

	_, err = sourcestats.Measure(t.TempDir())
	require.ErrorContains(t, err, "is a directory")
}
