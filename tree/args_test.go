package tree_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

// fragile has a Kind that does not work on a nil pointer.
type fragile struct{ kind string }

func (f *fragile) Kind() string { return f.kind }

// constant has one that does.
type constant struct{ N int }

func (*constant) Kind() string { return "constant" }

func TestNodesThatAreNotThereAreRefused(t *testing.T) {
	t.Parallel()
	require.Equal(t, "node", refused(t, nil).Field)
	require.Contains(t, refused(t, nil).Problem, "tree.New")
	got := refused(t, tree.New(page{}).Add(tree.New(page{}), nil))
	require.Equal(t, "root/1", got.Path)
	got = refused(t, tree.New(nil))
	require.Equal(t, "args", got.Field)
	require.Equal(t, "are nil", got.Problem)
}

func TestAKindThatPanicsIsRefusedWithAdvice(t *testing.T) {
	t.Parallel()
	got := refused(t, tree.New((*fragile)(nil)))
	require.Equal(t, "kind", got.Field)
	require.Contains(t, got.Problem, "*tree_test.fragile.Kind panicked")
	require.Contains(t, got.Problem, "Kind must work on the zero value")
	require.Empty(t, got.Kind)

	got = refused(t, tree.New((*page)(nil))) // a value's method through a nil pointer
	require.Contains(t, got.Problem, "panicked")

	got = refused(t, tree.New(&fragile{""}))
	require.Equal(t, "is empty", got.Problem)
}

func TestANilPointerWithAKindIsNull(t *testing.T) {
	t.Parallel()
	s := specOf(t, tree.New((*constant)(nil)))
	require.Equal(t, "constant", s.Kind)
	require.Equal(t, "null", string(s.Args))
}

type erring struct{ err error }

func (erring) Kind() string                   { return "erring" }
func (e erring) MarshalJSON() ([]byte, error) { return nil, e.err }

type panicking struct{ with any }

func (panicking) Kind() string                   { return "panicking" }
func (p panicking) MarshalJSON() ([]byte, error) { panic(p.with) }

func TestArgsThatDoNotEncodeAreRefused(t *testing.T) {
	t.Parallel()
	for problem, args := range map[string]tree.Args{
		"do not encode as JSON: json: error calling MarshalJSON": erring{errors.New("no\x00pe")},
		"panicked: boom":                   panicking{"boom"},
		"panicked: a cause":                panicking{errors.New("a cause")},
		"unsupported type: chan int":       wrap{make(chan int)},
		"unsupported type: func()":         wrap{func() {}},
		"unsupported type: complex128":     wrap{1i},
		"the encoder of tree_test.wrap":    wrap{panicking{"deep"}},
		"unsupported value: encountered a": wrap{loop()},
	} {
		got := refused(t, tree.New(args))
		require.Equal(t, "args", got.Field)
		require.Contains(t, got.Problem, problem)
		require.Equal(t, args.Kind(), got.Kind)
		require.NotContains(t, got.Error(), "\x00")
	}
}

func loop() any {
	m := map[string]any{}
	m["again"] = m
	return m
}

// counting counts how often it is asked for its kind and its JSON.
type counting struct{ kinds, encodings *int }

func (c counting) Kind() string { *c.kinds++; return "counting" }

func (c counting) MarshalJSON() ([]byte, error) { *c.encodings++; return []byte("1"), nil }

func TestNothingIsEvaluatedAfterARefusal(t *testing.T) {
	t.Parallel()
	var kinds, encodings, options int
	counted := func(more ...tree.Option) *tree.Node {
		more = append(more, func(*tree.Spec) { options++ })
		return tree.New(counting{&kinds, &encodings}, more...)
	}
	_ = refused(t, counted(), counted().Add(counted(), counted(tree.Priority(1e6)), counted()), counted())
	require.Equal(t, []int{4, 4, 4}, []int{kinds, encodings, options})
	_ = refused(t, tree.New(kinded(""), func(*tree.Spec) { options++ }))
	require.Equal(t, 4, options)
}

func TestEachNodeIsEvaluatedOnce(t *testing.T) {
	t.Parallel()
	var kinds, encodings int
	_, err := tree.NewPlan(tree.New(counting{&kinds, &encodings}))
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{kinds, encodings})
}
