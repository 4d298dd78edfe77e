package sourcestats

import (
	"path/filepath"
	"strings"
)

// style is how comments are written in a language.
//
// No mark is the beginning of another.
type style struct {
	line        []string // marks of comments that end with their line
	open, close string   // marks of comments that span lines; empty: there are none
}

// styleOf tells the style by a file's name. The zero style, that of a language without comments, is also
// the answer for names that are not known.
func styleOf(name string) style {
	slashes := style{line: []string{"//"}, open: "/*", close: "*/"}
	hashes := style{line: []string{"#"}}
	switch filepath.Base(name) {
	case "Makefile", "GNUmakefile", "Dockerfile", "Containerfile":
		return hashes
	case "go.mod", "go.work":
		return slashes
	}
	switch strings.ToLower(strings.TrimPrefix(filepath.Ext(name), ".")) {
	case "go", "s", // Go's assembler has the comments of C
		"c", "h", "cc", "cpp", "cxx", "hh", "hpp", "m", "mm", "cs", "java", "kt", "scala", "swift", "rs",
		"js", "mjs", "cjs", "jsx", "ts", "tsx", "proto", "dart", "zig", "less", "scss":
		return slashes
	case "css":
		return style{open: "/*", close: "*/"}
	case "py", "sh", "bash", "zsh", "fish", "pl", "pm", "rb", "awk", "yaml", "yml", "toml", "tf", "mk", "cmake",
		"conf", "properties", "r", "ex", "exs", "bazel", "bzl":
		return hashes
	case "php":
		return style{line: []string{"//", "#"}, open: "/*", close: "*/"}
	case "sql":
		return style{line: []string{"--"}, open: "/*", close: "*/"}
	case "lua":
		return style{line: []string{"--"}} // its "--[[" is a line's comment here
	case "hs", "elm":
		return style{line: []string{"--"}, open: "{-", close: "-}"}
	case "html", "htm", "xml", "svg", "md":
		return style{open: "<!--", close: "-->"}
	}
	return style{}
}

// mark is what the first bytes of a line turn out to be.
type mark int

const (
	noMark   mark = iota // code
	partMark             // more bytes will tell
	lineMark             // a comment up to the line's end
	openMark             // a comment up to its closing mark
)

// read looks at the first bytes of a line, or what follows a comment that ended in it.
func (s style) read(head string) mark {
	if s.open != "" && head == s.open {
		return openMark
	}
	part := strings.HasPrefix(s.open, head)
	for _, m := range s.line {
		if head == m {
			return lineMark
		}
		part = part || strings.HasPrefix(m, head)
	}
	if part {
		return partMark
	}
	return noMark
}
