package house_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recursive matches the commands that would run this test again.
var recursive = regexp.MustCompile(`^(make (test|test-short|cover|readme-check)|go test .*\./\.\.\.)\b`)

// runnable returns the scripts of a Markdown text: its code blocks that begin with
// ```sh run. GitHub shows them as any other sh block.
func runnable(markdown string) []string {
	var scripts []string
	block := regexp.MustCompile("(?ms)^```sh run[ ]*\n(.*?)^```[ ]*$")
	for _, match := range block.FindAllStringSubmatch(markdown, -1) {
		scripts = append(scripts, match[1])
	}
	return scripts
}

func TestReadmeSaysHowToRunTheTests(t *testing.T) {
	t.Parallel()
	assert.Contains(t, strings.Join(runnable(read(t, "README.md")), ""), "make test\n")
}

// TestReadmeCommandsRun runs every runnable block of README.md as one script, in
// order, in a copy of the repository, and stops at the first command that fails.
func TestReadmeCommandsRun(t *testing.T) {
	t.Parallel()
	if os.Getenv("COPPICE_README_CHECK") != "1" {
		t.Skip("slow: make readme-check runs it")
	}
	clone := copyRepository(t)
	scripts := runnable(read(t, "README.md"))
	require.NotEmpty(t, scripts)
	for _, script := range scripts {
		var kept strings.Builder
		for line := range strings.Lines(script) {
			if !recursive.MatchString(line) {
				kept.WriteString(line)
			}
		}
		// -x shows each command before what it prints.
		run := exec.CommandContext(t.Context(), "bash", "-euxo", "pipefail", "-c", kept.String())
		run.Dir = clone
		out, err := run.CombinedOutput()
		t.Logf("%s", out)
		require.NoError(t, err, "README.md:\n%s", script)
	}
}

// copyRepository returns a folder with the files that git knows or would add.
func copyRepository(t *testing.T) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root(t)
	out, err := list.Output()
	require.NoError(t, err)
	target := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		source := filepath.Join(root(t), name)
		info, err := os.Stat(source)
		if os.IsNotExist(err) {
			continue // Deleted, and not committed yet.
		}
		require.NoError(t, err)
		text, err := os.ReadFile(source)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(target, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(target, name), text, info.Mode().Perm()))
	}
	return target
}
