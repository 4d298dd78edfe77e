package house_test

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// maxLines is the longest a Go file may be.
const maxLines = 800

const module = "github.com/coppicehq/coppice"

func TestEveryPackageHasAComment(t *testing.T) {
	t.Parallel()
	commented, example := map[string]bool{}, map[string]string{}
	for _, f := range goFiles(t) {
		if f.isTest() {
			continue
		}
		example[f.dir()] = f.name
		want := "Package " + f.ast.Name.Name + " "
		if f.ast.Name.Name == "main" {
			want = "" // A command or an example begins as it likes.
		}
		if f.ast.Doc != nil && strings.HasPrefix(f.ast.Doc.Text(), want) {
			commented[f.dir()] = true
		}
	}
	for dir, name := range example {
		assert.True(t, commented[dir], "%s: the package has no comment that begins with its name", name)
	}
}

func TestNoFileIsTooLong(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		lines := strings.Count(f.text, "\n")
		assert.LessOrEqual(t, lines, maxLines, "%s has %d lines: one concept a file", f.name, lines)
	}
}

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	// What the code of each top-level folder may import of the others. Test files may
	// look from above. A folder that is not listed may import anything but commands
	// and examples. One package may import one example: "coppice demo" runs sourcestats,
	// and what it shows should be the code that people read.
	demo := map[string]string{"internal/cli": "examples/sourcestats"}
	mayImport := map[string][]string{
		"tree":       {},
		"migrations": {},
		"store":      {"tree", "migrations"},
		"engine":     {"tree", "store", "internal"},
		"dlq":        {"tree", "store", "internal"},
		"reaper":     {"tree", "store", "internal"},
	}
	for _, f := range goFiles(t) {
		allowed, limited := mayImport[f.top()]
		for _, spec := range f.ast.Imports {
			ours, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
			if !ok {
				continue
			}
			top, _, _ := strings.Cut(ours, "/")
			if top == f.top() {
				continue
			}
			if demo[f.dir()] != ours {
				assert.NotContains(t, []string{"cmd", "examples"}, top, "%s imports %s", f.at(spec), ours)
			}
			if limited && !f.isTest() {
				assert.Contains(t, allowed, top, "%s: %s may not import %s", f.at(spec), f.top(), ours)
			}
		}
	}
}

// calls calls do with every use of pkg.name in the file.
func calls(f goFile, pkg, name string, do func(ast.Node)) {
	ast.Inspect(f.ast, func(node ast.Node) bool {
		if s, ok := node.(*ast.SelectorExpr); ok && s.Sel.Name == name {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == pkg {
				do(s)
			}
		}
		return true
	})
}

func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if f.isTest() {
			calls(f, "time", "Sleep", func(node ast.Node) {
				t.Errorf("%s sleeps: wait on a signal, or with require.Eventually", f.at(node))
			})
		}
	}
}

func TestTheDatabasesClockDecides(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if f.isTest() || !slices.Contains([]string{"store", "dlq", "reaper"}, f.top()) {
			continue
		}
		for _, name := range []string{"Now", "Since", "Until"} {
			calls(f, "time", name, func(node ast.Node) {
				t.Errorf("%s reads this machine's clock: pass a duration, and let the query say now()", f.at(node))
			})
		}
	}
}

func TestEveryExceptionGivesItsReason(t *testing.T) {
	t.Parallel()
	// The markers are put together here so that this file does not match itself.
	nolint := regexp.MustCompile("//" + "nolint(:[a-z,]+ // .+)?")
	nosec := regexp.MustCompile("#" + "nosec( G[0-9]+ -- .+)?")
	for _, f := range goFiles(t) {
		for _, marker := range []*regexp.Regexp{nolint, nosec} {
			for _, match := range marker.FindAllStringSubmatch(f.text, -1) {
				assert.NotEmpty(t, match[1], "%s: %q needs a linter and a reason", f.name, match[0])
			}
		}
	}
}
