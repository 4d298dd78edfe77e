package house_test

import (
	"go/ast"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

// TestReadmeShowsTheProgramThatTheTestsRun holds README.md's program against the example that runs it.
func TestReadmeShowsTheProgramThatTheTestsRun(t *testing.T) {
	t.Parallel()
	const begin, end = "shows what follows, up to the next mark, as a program of its own.\n", "// That is all of it.\n"
	_, program, found := strings.Cut(read(t, "engine/example_test.go"), begin)
	require.True(t, found, "the mark where the program begins")
	program, _, found = strings.Cut(program, end)
	require.True(t, found, "the mark where the program ends")

	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(read(t, "README.md"), -1)
	require.NotEmpty(t, blocks)
	assert.Equal(t, "package main\n\n"+strings.TrimSpace(program)+"\n", blocks[0][1],
		"README.md's first block of Go is the program of engine/example_test.go")
}

// TestReadmeNamesTheLimits holds README.md's table of limits against the constants of package tree.
func TestReadmeNamesTheLimits(t *testing.T) {
	t.Parallel()
	want := map[string]int{
		"MaxArgsBytes": tree.MaxArgsBytes, "MaxResultBytes": tree.MaxResultBytes, "MaxMetaBytes": tree.MaxMetaBytes, "MaxCheckpointBytes": tree.MaxCheckpointBytes,
		"MaxJSONDepth": tree.MaxJSONDepth, "MaxKindBytes": tree.MaxKindBytes, "MaxQueueBytes": tree.MaxQueueBytes,
		"MaxKeyBytes": tree.MaxKeyBytes, "MaxTagBytes": tree.MaxTagBytes, "MaxTags": tree.MaxTags,
		"MaxNodes": tree.MaxNodes, "MaxDepth": tree.MaxDepth, "MaxAttemptLimit": tree.MaxAttemptLimit,
		"MinPriority": tree.MinPriority, "MaxPriority": tree.MaxPriority,
		"MaxErrorBytes": tree.MaxErrorBytes, "MaxStackBytes": tree.MaxStackBytes,
		"MaxDuration": int(tree.MaxDuration.Hours() / 24), // in days
	}
	for _, name := range limitsOfTree(t) {
		assert.Contains(t, want, name, "a limit that this test does not know")
	}
	got := map[string]int{}
	row := regexp.MustCompile("(?m)^\\|[^|]+\\| (-?[0-9,]+)[^|]*\\| `tree\\.([A-Za-z]+)` \\|$")
	for _, match := range row.FindAllStringSubmatch(read(t, "README.md"), -1) {
		n, err := strconv.Atoi(strings.ReplaceAll(match[1], ",", ""))
		require.NoError(t, err)
		got[match[2]] = n
	}
	assert.Equal(t, want, got, "the table of limits in README.md")
}

// limitsOfTree lists the constants of package tree that are limits.
func limitsOfTree(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, f := range goFiles(t) {
		if f.dir() != "tree" || f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for _, name := range spec.Names {
				if strings.HasPrefix(name.Name, "Max") || strings.HasPrefix(name.Name, "Min") {
					names = append(names, name.Name)
				}
			}
			return true
		})
	}
	require.NotEmpty(t, names)
	return names
}
