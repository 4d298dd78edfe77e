package sourcestats_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/examples/sourcestats"
	"github.com/coppicehq/coppice/tree"
)

// sample makes a folder with a bit of everything.
func sample(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write(t, root, "a.go", "// a\npackage a\n")
	write(t, root, "b/one.go", "package b\n")
	write(t, root, "b/two.go", "package b\n\n/* two\n*/\n")
	write(t, root, "b/deep/er/x.py", "# x\n")
	write(t, root, "c.txt", "no line feed")
	require.NoError(t, os.Mkdir(filepath.Join(root, "empty"), 0o755))
	return root
}

func TestWalkAddsUpAFolder(t *testing.T) {
	t.Parallel()
	root := sample(t)
	got, err := sourcestats.Walk(root, 0)
	require.NoError(t, err)
	require.Equal(t, int64(5), got.Files)
	require.Equal(t, int64(5), got.Folders, "root, b, b/deep, b/deep/er, empty")
	require.Equal(t, int64(9), got.Lines)
	require.Equal(t, int64(4), got.CommentLines)
	require.Equal(t, sourcestats.FolderSize{Path: "b", Files: 2, Bytes: 31, Lines: 5, CommentLines: 2}, got.Largest[0])
	require.Equal(t, ".", got.Largest[1].Path)
	require.Len(t, got.Largest, 5)
}

func TestWalkFollowsNoLinksButItsRoot(t *testing.T) {
	t.Parallel()
	root := sample(t)
	want, err := sourcestats.Walk(root, 0)
	require.NoError(t, err)

	require.NoError(t, os.Symlink("a.go", filepath.Join(root, "link.go")))
	require.NoError(t, os.Symlink(".", filepath.Join(root, "loop")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(root, "broken")))
	linked := filepath.Join(t.TempDir(), "root")
	require.NoError(t, os.Symlink(root, linked))
	got, err := sourcestats.Walk(linked, 0)
	require.NoError(t, err)
	require.NoError(t, sourcestats.Verify(got, want))
}

func TestWalkEndsWithTheLimitedFile(t *testing.T) {
	t.Parallel()
	root := sample(t)
	for files, folders := range map[int]int64{1: 1, 2: 4, 3: 4, 4: 4, 5: 4, 6: 5} {
		got, err := sourcestats.Walk(root, files)
		require.NoError(t, err)
		require.Equal(t, int64(min(files, 5)), got.Files)
		require.Equal(t, folders, got.Folders, "%d files", files)
	}
}

func TestWalkNamesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	root := sample(t)
	file := filepath.Join(root, "a.go")
	_, err := sourcestats.Walk(file, 0)
	require.EqualError(t, err, file+" is no folder")

	gone := filepath.Join(root, "gone")
	_, err = sourcestats.Walk(gone, 0)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, gone)

	bad := filepath.Join(root, "b", "\xff.go")
	if os.WriteFile(bad, nil, 0o600) != nil {
		t.Skip("this file system only takes names in UTF-8")
	}
	_, err = sourcestats.Walk(root, 0)
	require.ErrorContains(t, err, `b/\xff.go" is not valid UTF-8`)
}

func TestTreeHasTheFilesAndFoldersOfTheWalk(t *testing.T) {
	t.Parallel()
	root := sample(t)
	for files := range 7 {
		want, err := sourcestats.Walk(root, files)
		require.NoError(t, err)
		node, counts, err := sourcestats.Tree(root, files)
		require.NoError(t, err)
		require.Equal(t, int(want.Files), counts.Files, "limit %d", files)
		require.Equal(t, int(want.Folders), counts.Folders, "limit %d", files)

		plan, err := tree.NewPlan(node)
		require.NoError(t, err)
		require.Len(t, plan.Specs, counts.Files+counts.Folders)
		got := rollUp(t, plan)
		require.NoError(t, sourcestats.Verify(got, want), "limit %d", files)
	}
}

// rollUp does the work of a planned tree without an engine: from the last node to the first, so that children
// come before their parents.
func rollUp(t *testing.T, plan *tree.Plan) sourcestats.FolderStats {
	t.Helper()
	files := map[int]sourcestats.FileStats{}
	folders := map[int]sourcestats.FolderStats{}
	for i := len(plan.Specs) - 1; i >= 0; i-- {
		spec := plan.Specs[i]
		if !spec.Finalizes {
			var args sourcestats.FileArgs
			require.NoError(t, json.Unmarshal(spec.Args, &args))
			stats, err := sourcestats.Measure(filepath.Join(args.Root, filepath.FromSlash(args.Path)))
			require.NoError(t, err)
			files[i] = stats
			continue
		}
		var args sourcestats.FolderArgs
		require.NoError(t, json.Unmarshal(spec.Args, &args))
		r := sourcestats.NewRollup(args.Path)
		for k := i + 1; k < len(plan.Specs); k++ {
			switch child := plan.Specs[k]; {
			case child.Parent != i:
			case child.Finalizes:
				r.AddFolder(child.ChildKey, folders[k])
			default:
				r.AddFile(child.ChildKey, files[k])
			}
		}
		folders[i] = r.Stats()
	}
	return folders[0]
}

func TestWalkOfTheToolchainIsLargeAndTheTreeFits(t *testing.T) {
	t.Parallel()
	root, err := sourcestats.DefaultRoot(t.Context())
	if err != nil {
		t.Skip(err)
	}
	_, counts, err := sourcestats.Tree(root, 0)
	require.NoError(t, err)
	require.Greater(t, counts.Files, 5_000)
	require.Less(t, counts.Files+counts.Folders, tree.MaxNodes)

	got, err := sourcestats.Walk(root, 2_000) // all of it takes longer than a test should with the race detector
	require.NoError(t, err)
	require.Equal(t, int64(2_000), got.Files)
	require.Len(t, got.Largest, sourcestats.LargestFolders)
}

func TestReportShowsTotalsAndLargestFolders(t *testing.T) {
	t.Parallel()
	root := sample(t)
	stats, err := sourcestats.Walk(root, 0)
	require.NoError(t, err)
	stats.Bytes = 1_234_567
	report := sourcestats.Report{Root: root, FolderStats: stats}
	var text strings.Builder
	require.NoError(t, report.Text(&text))
	require.Contains(t, text.String(), "1,234,567")
	require.Contains(t, text.String(), "b/deep/er")

	raw, err := json.Marshal(report)
	require.NoError(t, err)
	var back sourcestats.Report
	require.NoError(t, json.Unmarshal(raw, &back))
	require.Equal(t, report, back)
}
