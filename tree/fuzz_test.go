package tree_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coppicehq/coppice/tree"
)

// FuzzCheckJSON holds the check against encoding/json: what it accepts has strings that can be decoded
// without loss, and what it refuses has a reason that can be seen another way.
func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`, `"\u0000"`, `"\\u0000"`, `"\\\u0000"`, `"\ud83d\ude00"`, `"\ud800"`, `"\udc00\ud800"`, `"\ud800\\udc00"`,
		`"\ufffd"`, "\"\uFFFD\"", "\"\xff\"", `[1e400,9223372036854775808,-0.0]`, `{"a":{"a":[{"b":"]"}]}}`,
		strings.Repeat("[", 500) + strings.Repeat("]", 500), strings.Repeat("[", 501) + strings.Repeat("]", 501),
	} {
		f.Add([]byte(seed))
	}
	const limit = 64 << 10
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := tree.CheckJSON(raw, limit)
		if !json.Valid(raw) {
			return // it only has to return
		}
		text := string(raw)
		lossy := !utf8.Valid(raw) || loses(text)
		depth := deepest(text)
		switch wrong := len(raw) > limit || lossy || depth > tree.MaxJSONDepth; {
		case err == nil && wrong:
			t.Fatalf("accepted: lossy %v, depth %d, %d bytes: %q", lossy, depth, len(raw), raw)
		case err != nil && !wrong:
			t.Fatalf("refused %q: %v", raw, err)
		}
	})
}

// loses reports whether a string in the JSON holds a NUL, or an escape that encoding/json decodes to U+FFFD
// although it does not say so.
func loses(text string) bool {
	decoder := json.NewDecoder(strings.NewReader(text))
	var decoded strings.Builder
	for {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		if s, ok := token.(string); ok {
			decoded.WriteString(s)
		}
	}
	said := strings.Count(text, "\uFFFD") + strings.Count(unescaped(text), `\ufffd`)
	return strings.Contains(decoded.String(), "\x00") || strings.Count(decoded.String(), "\uFFFD") > said
}

// unescaped drops escaped backslashes and folds the case of the rest.
func unescaped(text string) string {
	return strings.ToLower(strings.ReplaceAll(text, `\\`, ""))
}

// deepest counts nesting with encoding/json's own tokens.
func deepest(text string) int {
	decoder := json.NewDecoder(strings.NewReader(text))
	depth, most := 0, 0
	for {
		token, err := decoder.Token()
		if err != nil {
			return most
		}
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
			most = max(most, depth)
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	}
}

// FuzzCleanText expects text that PostgreSQL stores, within its limit, whatever comes in.
func FuzzCleanText(f *testing.F) {
	f.Add("plain", 100)
	f.Add("a\x00b\xff\xfe木😀", 10)
	f.Add(strings.Repeat("\x00", 100), 100)
	f.Add(strings.Repeat("\x80", 300), 8)
	f.Add("木木木木木木", 7)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = (limit&0xffff + 0x10000) & 0xffff
		got := tree.CleanText(text, limit)
		if len(got) > limit || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
			t.Fatalf("limit %d: %q", limit, got)
		}
		if len(text) <= limit && utf8.ValidString(text) && !strings.Contains(text, "\x00") && got != text {
			t.Fatalf("%q became %q", text, got)
		}
		if again := tree.CleanText(got, limit); again != got {
			t.Fatalf("cleaned again, %q became %q", got, again)
		}
	})
}

// FuzzPlan builds a forest from bytes, each a step: down, up, an option. A plan that is accepted keeps the
// promises of Plan; one that is refused says so as an InvalidError, with a path.
func FuzzPlan(f *testing.F) {
	for _, seed := range []string{"", "ab", "addupd", "aaaaaaaa", "abababuuuuu", "akakuakd", "\x00\xff\x80", "amtqpaxymtq"} {
		f.Add([]byte(seed), "word", int64(5))
	}
	f.Add([]byte("aqtd"), "\x00", int64(-1))
	f.Add([]byte("aqtdk"), "\xff", int64(1)<<62)
	f.Fuzz(func(t *testing.T, steps []byte, word string, number int64) {
		if len(steps) > 2_000 {
			return
		}
		nodes := forest(steps, word, number)
		plan, err := tree.NewPlan(nodes...)
		if err != nil {
			var invalid *tree.InvalidError
			if plan != nil || !errors.As(err, &invalid) || !strings.HasPrefix(invalid.Path, "root") || invalid.Field == "" || invalid.Problem == "" {
				t.Fatalf("%v with the plan %v", err, plan)
			}
			return
		}
		checkPlan(t, plan, len(nodes))
	})
}

func checkPlan(t *testing.T, plan *tree.Plan, roots int) {
	t.Helper()
	found, children := 0, make([]int, len(plan.Specs))
	for i, s := range plan.Specs {
		switch {
		case s.Parent < 0:
			found++
			if s.Root != i {
				t.Fatalf("root %d has the root %d", i, s.Root)
			}
		case s.Parent >= i:
			t.Fatalf("spec %d comes before its parent %d", i, s.Parent)
		default:
			children[s.Parent]++
			if s.Root != plan.Specs[s.Parent].Root {
				t.Fatalf("spec %d is of another tree than its parent", i)
			}
		}
		if !json.Valid(s.Args) || bytes.Contains(s.Args, []byte{0}) || len(s.Args) > tree.MaxArgsBytes || s.Queue == "" || s.MaxAttempts < 1 {
			t.Fatalf("spec %d: %+v", i, s)
		}
	}
	for i, s := range plan.Specs {
		if s.Children != children[i] || (s.Children > 0 && !s.Finalizes) {
			t.Fatalf("spec %d counts %d children of %d", i, s.Children, children[i])
		}
	}
	if found != roots || plan.Roots != roots {
		t.Fatalf("%d roots of %d", found, roots)
	}
}
