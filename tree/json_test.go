package tree_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

// argsOf plans args made of anything and returns their JSON.
func argsOf(t testing.TB, v any) (string, error) {
	t.Helper()
	plan, err := tree.NewPlan(tree.New(wrap{v}))
	if err != nil {
		return "", err
	}
	return string(plan.Specs[0].Args), nil
}

func TestEscapesThatPostgreSQLCannotReadAsTextAreRefused(t *testing.T) {
	t.Parallel()
	for text, problem := range map[string]string{
		`"\u0000"`:             "NUL character",
		`{"a\u0000b":1}`:       "NUL character",
		`"\\\u0000"`:           "NUL character", // an escaped backslash, then the escape
		`"\ud800"`:             `half of a surrogate pair (\ud800)`,
		`"\uD800x"`:            "half of a surrogate",
		`"\udc00"`:             "half of a surrogate",
		`"\udc00\ud800"`:       "half of a surrogate", // swapped
		`"\ud800\ud800\udc00"`: "half of a surrogate",
		`"\ud800\\udc00"`:      "half of a surrogate", // the second is a backslash and letters
		`"\ud800\u0041"`:       "half of a surrogate",
		`["\udbff\n\udfff"]`:   "half of a surrogate",
	} {
		require.True(t, json.Valid([]byte(text)), text)
		require.ErrorContains(t, tree.CheckJSON([]byte(text), 1e6), problem, text)
		_, err := argsOf(t, json.RawMessage(text))
		require.ErrorContains(t, err, problem)
	}
}

func TestWhatOnlyLooksLikeABadEscapeIsAccepted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`"\\u0000"`, `"\\\\u0000"`, `"\\ud800"`, `"\u0001"`, `"\u00e4"`, `"\ud83d\ude00"`, `"\uD83D\uDE00\ud83d\ude00"`,
		`"\"\\\"{[[["`, `"\ufffd"`, `"\\ufffd"`, "\"\uFFFD\"", `"\uffff"`, `""`, `{"":[]}`, `"\/\b\f"`,
	} {
		require.NoError(t, tree.CheckJSON([]byte(text), 1e6), text)
		got, err := argsOf(t, json.RawMessage(text))
		require.NoError(t, err)
		require.Equal(t, `{"V":`+text+`}`, got)
	}
}

func TestBrokenEscapesAreRefusedWithoutPanic(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`"\u`, `"\u12`, `"\ud800\u`, `"\ud800\ud`, `"\uZZZZ"`, `"\u+123"`} {
		require.Error(t, tree.CheckJSON([]byte(text), 1e6), text)
	}
	require.NoError(t, tree.CheckJSON([]byte(`"\`), 1e6)) // not JSON, which is for others to find
}

func TestRawJSONKeepsItsKeysAndDigitsAndLosesItsSpaces(t *testing.T) {
	t.Parallel()
	got, err := argsOf(t, json.RawMessage(` { "b" : 1.50 , "a":9223372036854775808, "b": 1e400, "c":-0 } `))
	require.NoError(t, err)
	verbatim(t, `{"V":{"b":1.50,"a":9223372036854775808,"b":1e400,"c":-0}}`, got)
	got, err = argsOf(t, json.RawMessage(`"<&>"`))
	require.NoError(t, err)
	verbatim(t, `{"V":"\u003c\u0026\u003e"}`, got) // what HTML would read is escaped
	_, err = argsOf(t, json.RawMessage(`{"a":}`))
	require.ErrorContains(t, err, "do not encode as JSON")
	_, err = argsOf(t, json.RawMessage("\"a\xff\""))
	require.ErrorContains(t, err, "not valid UTF-8")
	got, err = argsOf(t, json.Number("123456789012345678901234567890"))
	require.NoError(t, err)
	require.Equal(t, `{"V":123456789012345678901234567890}`, got)
}

func TestJSONIsAcceptedDownToTheDepthLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ open, shut string }{{"[", "]"}, {`{"a":`, "}"}} {
		nest := func(n int) []byte {
			return []byte(strings.Repeat(c.open, n) + "1" + strings.Repeat(c.shut, n))
		}
		require.NoError(t, tree.CheckJSON(nest(tree.MaxJSONDepth), 1e6))
		require.ErrorContains(t, tree.CheckJSON(nest(tree.MaxJSONDepth+1), 1e6), "deeper than 500 levels")
		_, err := argsOf(t, json.RawMessage(nest(tree.MaxJSONDepth-1))) // the struct around it is a level
		require.NoError(t, err)
		_, err = argsOf(t, json.RawMessage(nest(tree.MaxJSONDepth)))
		require.ErrorContains(t, err, "deeper than 500 levels")
	}
	require.NoError(t, tree.CheckJSON([]byte(`["`+strings.Repeat("[", 1000)+`"]`), 1e6), "brackets in a string")
	require.NoError(t, tree.CheckJSON([]byte("["+strings.Repeat("[],", 1000)+"[]]"), 1e6), "wide")
}

func TestArgsAreMeasuredAsTheyAreStored(t *testing.T) {
	t.Parallel()
	const frame = len(`{"V":""}`)
	got, err := argsOf(t, strings.Repeat("x", tree.MaxArgsBytes-frame))
	require.NoError(t, err)
	require.Len(t, got, tree.MaxArgsBytes)
	for _, text := range []string{
		strings.Repeat("x", tree.MaxArgsBytes-frame+1),
		strings.Repeat("<", tree.MaxArgsBytes/6), // six bytes each, once escaped
	} {
		_, err = argsOf(t, text)
		require.ErrorContains(t, err, "bytes of JSON are more than 1048576")
	}
}

type textual struct{ text string }

func (v textual) MarshalText() ([]byte, error) { return []byte(v.text), nil }

type keyText string

func (k keyText) MarshalText() ([]byte, error) { return []byte("key"), nil }

type byPointer struct{ text string }

func (v *byPointer) MarshalJSON() ([]byte, error) { return []byte(`"\ufffd"`), nil }

type embedded struct{ Text string }

type list struct {
	Text string
	Next *list `json:",omitempty"`
}

func TestStringsThatAreNotUTF8AreRefusedWhereverTheyAre(t *testing.T) {
	t.Parallel()
	const wrong = "a\xff"
	text := wrong
	long := &list{Text: wrong}
	for range 400 {
		long = &list{Next: long}
	}
	for name, v := range map[string]any{
		"string":           wrong,
		"named string":     kinded(wrong),
		"half a surrogate": "\xed\xa0\x80",
		"struct":           struct{ A, B string }{"fine", wrong},
		"nested":           struct{ A any }{struct{ B []any }{[]any{1, wrong}}},
		"pointer":          &text,
		"interface":        any(&text),
		"slice":            []string{"", wrong},
		"array":            [2]string{"", wrong},
		"map value":        map[string]string{"a": wrong},
		"map key":          map[string]int{wrong: 1},
		"map of maps":      map[int]any{1: map[kinded]int{wrong: 1}},
		"key with encoder": map[keyText]int{wrong: 1},
		"embedded":         struct{ embedded }{embedded{wrong}},
		"embedded pointer": struct{ *embedded }{&embedded{wrong}},
		"quoted": struct {
			S string `json:",string"`
		}{wrong},
		"beside a real one": []string{"\uFFFD", wrong},
		"long list":         long,
	} {
		got := refused(t, tree.New(wrap{v}))
		require.Equal(t, "args", got.Field, name)
		require.Contains(t, got.Problem, "not valid UTF-8", name)
	}
}

func TestWhatIsNotWrittenOrIsRealIsAccepted(t *testing.T) {
	t.Parallel()
	const wrong = "a\xff"
	for name, v := range map[string]any{
		"real":        "\uFFFD",
		"real in raw": json.RawMessage(`"\ufffd"`),
		"bytes":       []byte(wrong),
		"left out": struct {
			A, B any `json:"-"`
		}{"\uFFFD", wrong},
		"unexported": struct {
			A string
			b string
		}{`\ufffd`, wrong},
		"pointer encoder": &struct{ A byPointer }{byPointer{wrong}},
		"nil things": struct {
			A any
			B *string
			C map[string]string
			D []string
			E string
		}{E: `\ufffd`},
		"time":            time.Unix(0, 0).UTC(),
		"text of its own": textual{"fine"},
	} {
		_, err := argsOf(t, v)
		require.NoError(t, err, name)
	}
}
