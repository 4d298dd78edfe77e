package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root returns the folder with go.mod.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, dir, parent, "no go.mod above the test")
		dir = parent
	}
}

// read returns the content of a file of the repository.
func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), name))
	require.NoError(t, err)
	return string(text)
}

// goFile is one Go file of the repository.
type goFile struct {
	name string // slash-separated, from the root
	text string
	fset *token.FileSet
	ast  *ast.File
}

// dir returns the folder of the file, from the root.
func (f goFile) dir() string { return path.Dir(f.name) }

// top returns the first folder of the file's path.
func (f goFile) top() string { return strings.SplitN(f.name, "/", 2)[0] }

// isTest reports whether the file is compiled into tests only.
func (f goFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// at returns the place of node, to click on.
func (f goFile) at(node ast.Node) string {
	p := f.fset.Position(node.Pos())
	return f.name + ":" + strconv.Itoa(p.Line)
}

// goFiles returns every Go file of the repository, parsed.
func goFiles(t testing.TB) []goFile {
	t.Helper()
	var all []goFile
	base := root(t)
	err := filepath.WalkDir(base, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != base && (strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"bin", "testdata", "vendor"}, entry.Name())) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(base, name)
		if err != nil {
			return err
		}
		file := goFile{name: filepath.ToSlash(relative), text: string(text), fset: token.NewFileSet()}
		file.ast, err = parser.ParseFile(file.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		all = append(all, file)
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}
