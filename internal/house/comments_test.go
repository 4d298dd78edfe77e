package house_test

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// TestEveryExportedNameHasAComment looks at types, functions, methods, constants and
// variables, and at the fields of what a caller fills in: Config, Options, Request. A
// constant or variable may share the comment of its group, and a field or constant
// may have its comment behind it. Elsewhere a field whose name and type say all may
// go without: "ID is the id" tells nobody anything. So may methods whose meaning
// the language fixes.
func TestEveryExportedNameHasAComment(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if f.isTest() || f.ast.Name.Name == "main" {
			continue
		}
		missing := func(node ast.Node, name string) {
			t.Errorf("%s: %s has no doc comment", f.at(node), name)
		}
		for _, decl := range f.ast.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Doc == nil && decl.Name.IsExported() && receiverIsExported(decl) && !fixedMeaning(decl) {
					missing(decl, decl.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					checkSpec(decl, spec, missing)
				}
			}
		}
	}
}

// fixedMeaning reports whether decl is a method that an interface of the standard
// library has defined.
func fixedMeaning(decl *ast.FuncDecl) bool {
	if decl.Recv == nil {
		return false
	}
	switch decl.Name.Name {
	case "Error", "Unwrap", "Is", "String":
		return true
	}
	return false
}

// filledIn reports whether callers fill in structs of this name.
func filledIn(name string) bool {
	for _, end := range []string{"Config", "Options", "Request"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// receiverIsExported reports whether decl is a function, or a method that can be
// seen from outside.
func receiverIsExported(decl *ast.FuncDecl) bool {
	if decl.Recv == nil {
		return true
	}
	kind := decl.Recv.List[0].Type
	for {
		switch k := kind.(type) {
		case *ast.StarExpr:
			kind = k.X
		case *ast.IndexExpr:
			kind = k.X
		case *ast.IndexListExpr:
			kind = k.X
		case *ast.Ident:
			return k.IsExported()
		default:
			return false
		}
	}
}

// checkSpec calls missing for every exported name of spec without a comment.
func checkSpec(decl *ast.GenDecl, spec ast.Spec, missing func(ast.Node, string)) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return
		}
		// A group's comment says nothing about one type among several.
		if spec.Doc == nil && (decl.Doc == nil || decl.Lparen != token.NoPos) {
			missing(spec, spec.Name.Name)
		}
		switch kind := spec.Type.(type) {
		case *ast.StructType:
			if !filledIn(spec.Name.Name) {
				return
			}
			checkFields(spec.Name.Name, kind.Fields, missing)
		case *ast.InterfaceType:
			checkFields(spec.Name.Name, kind.Methods, missing)
		}
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if name.IsExported() && decl.Doc == nil && spec.Doc == nil && spec.Comment == nil {
				missing(spec, name.Name)
			}
		}
	}
}

// checkFields calls missing for every exported field or method without a comment.
// An embedded type brings its own.
func checkFields(owner string, fields *ast.FieldList, missing func(ast.Node, string)) {
	for _, field := range fields.List {
		for _, name := range field.Names {
			if name.IsExported() && field.Doc == nil && field.Comment == nil {
				missing(field, owner+"."+name.Name)
			}
		}
	}
}
