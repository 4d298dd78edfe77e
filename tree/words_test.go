package tree_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

// word is one place that takes a word of a person's.
type word struct {
	field string
	limit int
	node  func(text string) *tree.Node // has the word somewhere in it
}

func words() []word {
	child := func(option tree.Option) *tree.Node { return tree.New(page{}).Add(tree.New(page{}, option)) }
	return []word{
		{"kind", tree.MaxKindBytes, func(text string) *tree.Node { return tree.New(kinded(text)) }},
		{"queue", tree.MaxQueueBytes, func(text string) *tree.Node { return tree.New(page{}, tree.Queue(text)) }},
		{"dedup key", tree.MaxKeyBytes, func(text string) *tree.Node { return tree.New(page{}, tree.Dedup(text)) }},
		{"key", tree.MaxKeyBytes, func(text string) *tree.Node { return child(tree.Key(text)) }},
		{"tags", tree.MaxTagBytes, func(text string) *tree.Node { return tree.New(page{}, tree.Tags("fine", text)) }},
	}
}

func TestWordsAreAcceptedUpToTheirLimits(t *testing.T) {
	t.Parallel()
	for _, w := range words() {
		for _, text := range []string{
			"a", " a ", "NULL", `q"\{},'`, "木", "😀", "\uFFFD", "a\nb", strings.Repeat("x", w.limit),
			strings.Repeat("木", w.limit/3),
		} {
			_, err := tree.NewPlan(w.node(text))
			require.NoError(t, err, "%s %q", w.field, text)
		}
	}
}

func TestWordsThatCannotBeStoredOrReadAreRefused(t *testing.T) {
	t.Parallel()
	for _, w := range words() {
		for text, problem := range map[string]string{
			"":                               "is empty",
			" ":                              "is blank",
			"\t\n\u00a0":                     "is blank",
			"a\x00b":                         "NUL",
			"a\xff":                          "UTF-8",
			"\xed\xa0\x80":                   "UTF-8", // half of a surrogate pair
			strings.Repeat("x", w.limit+1):   fmt.Sprintf("%d bytes, more than %d", w.limit+1, w.limit),
			strings.Repeat("木", w.limit/3+1): "more than",
			strings.Repeat("\x80", 10_000):   "more than",
		} {
			got := refused(t, w.node(text))
			require.Equal(t, w.field, got.Field)
			require.Contains(t, got.Problem, problem, "%s %q", w.field, text)
			require.Less(t, len(got.Error()), 500, "an error is for reading")
		}
	}
}

func TestAJobTakesSoManyTagsAndNoMore(t *testing.T) {
	t.Parallel()
	tags := make([]string, tree.MaxTags)
	for i := range tags {
		tags[i] = fmt.Sprint(i)
	}
	require.Equal(t, tags, planned(t, tree.Tags(tags...)).Tags)
	got := refused(t, tree.New(page{}, tree.Tags(tags...), tree.Tags("one more")))
	require.Equal(t, "tags", got.Field)
	require.Contains(t, got.Problem, "65 are more than 64")
}

func TestMetadataIsMeasuredAsItIsStored(t *testing.T) {
	t.Parallel()
	const frame = len(`{"k":""}`)
	planned(t, tree.Meta("k", strings.Repeat("x", tree.MaxMetaBytes-frame)))
	planned(t, tree.Meta("k", strings.Repeat("<", (tree.MaxMetaBytes-frame)/6))) // each is stored as six bytes
	for _, value := range []string{
		strings.Repeat("x", tree.MaxMetaBytes-frame+1),
		strings.Repeat("<", (tree.MaxMetaBytes-frame)/6+1),
		strings.Repeat("\x01", tree.MaxMetaBytes/2),
	} {
		got := refused(t, tree.New(page{}, tree.Meta("k", value)))
		require.Equal(t, "meta", got.Field)
		require.Contains(t, got.Problem, "more than 16384")
	}
}

func TestMetadataThatCannotBeStoredIsRefused(t *testing.T) {
	t.Parallel()
	for problem, option := range map[string]tree.Option{
		"a key is empty":          tree.Meta("", "v"),
		`"v\x00" holds a NUL`:     tree.Meta("k", "v\x00"),
		`"k\x00" holds a NUL`:     tree.Meta("k\x00", "v"),
		`"\xff" is not valid UTF`: tree.Meta("k", "\xff"),
		`"k\xff" is not valid`:    tree.Meta("k\xff", "v"),
	} {
		got := refused(t, tree.New(page{}, option))
		require.Equal(t, "meta", got.Field)
		require.Contains(t, got.Problem, problem)
	}
	require.Equal(t, map[string]string{"k": ""}, planned(t, tree.Meta("k", "")).Meta)
}
