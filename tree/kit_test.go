package tree_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

// page is the args of most tests.
type page struct {
	Name string `json:"name,omitempty"`
}

func (page) Kind() string { return "page" }

// kinded is args whose kind is their value.
type kinded string

func (k kinded) Kind() string { return string(k) }

// wrap is args around anything.
type wrap struct{ V any }

func (wrap) Kind() string { return "wrap" }

// planned plans one root that must be accepted, and returns its spec.
func planned(t testing.TB, options ...tree.Option) tree.Spec {
	t.Helper()
	plan, err := tree.NewPlan(tree.New(page{}, options...))
	require.NoError(t, err)
	require.Len(t, plan.Specs, 1)
	return plan.Specs[0]
}

// refused plans nodes that must be refused, and returns the refusal.
func refused(t testing.TB, nodes ...*tree.Node) *tree.InvalidError {
	t.Helper()
	plan, err := tree.NewPlan(nodes...)
	require.ErrorIs(t, err, tree.ErrInvalid)
	require.Nil(t, plan)
	var invalid *tree.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, err.Error(), invalid.Error())
	return invalid
}

// verbatim compares JSON byte for byte, which is what is promised of args.
func verbatim(t testing.TB, want, got string) {
	t.Helper()
	require.Equal(t, want, got)
}
