package tree_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/tree"
)

func TestANodeWithoutOptionsHasTheDefaults(t *testing.T) {
	t.Parallel()
	verbatim(t, `{"name":"a"}`, string(specOf(t, tree.New(page{"a"})).Args))
	s := planned(t)
	require.Equal(t, "page", s.Kind)
	require.Equal(t, "default", s.Queue)
	require.Equal(t, tree.DefaultPriority, s.Priority)
	require.Equal(t, tree.DefaultMaxAttempts, s.MaxAttempts)
	require.Equal(t, tree.Wait, s.OnDead)
	require.Equal(t, tree.LostRetry, s.OnLost)
	require.Equal(t, -1, s.Parent)
	require.Zero(t, s.Root)
	require.False(t, s.Finalizes)
	for _, unset := range []any{
		s.Children, s.Delay, s.DueAt, s.Timeout, s.MaxAge, s.Backoff, s.DedupKey, s.ChildKey, s.Tags, s.Meta, s.KeepFor,
		s.Tolerate, s.TolerateRatio,
	} {
		require.Zero(t, unset)
	}
}

// specOf plans one root.
func specOf(t testing.TB, n *tree.Node) tree.Spec {
	t.Helper()
	plan, err := tree.NewPlan(n)
	require.NoError(t, err)
	return plan.Specs[0]
}

func TestOfTwoOptionsForOnePropertyTheLaterWins(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := planned(t, tree.Queue("a"), tree.Queue("b"), tree.Priority(1), tree.Priority(2), tree.Delay(time.Hour), tree.At(at))
	require.Equal(t, "b", s.Queue)
	require.Equal(t, 2, s.Priority)
	require.Equal(t, at, s.DueAt)
	require.Zero(t, s.Delay)
	s = planned(t, tree.At(at), tree.Delay(time.Hour))
	require.Zero(t, s.DueAt)
	require.Equal(t, time.Hour, s.Delay)
	s = planned(t, tree.Meta("a", "1"), tree.Meta("b", "2"), tree.Meta("a", "3"), tree.Tags("x"), tree.Tags("y", "z"))
	require.Equal(t, map[string]string{"a": "3", "b": "2"}, s.Meta)
	require.Equal(t, []string{"x", "y", "z"}, s.Tags)
}

func TestARefusedOptionMayBeOverruled(t *testing.T) {
	t.Parallel()
	require.Equal(t, 1, planned(t, tree.MaxAttempts(-1), tree.MaxAttempts(1)).MaxAttempts)
}

func TestOptionsAreNotSharedBetweenNodes(t *testing.T) {
	t.Parallel()
	words := []string{"a"}
	tags, meta := tree.Tags(words...), tree.Meta("k", "v")
	one := planned(t, tags, meta, tree.Tags("b"), tree.Meta("l", "w"))
	words[0] = "changed"
	two := planned(t, tags, meta)
	require.Equal(t, []string{"a", "b"}, one.Tags)
	require.Len(t, one.Meta, 2)
	require.Len(t, two.Meta, 1)
}

func TestAnOptionCannotMoveItsNode(t *testing.T) {
	t.Parallel()
	stray := func(s *tree.Spec) { s.Parent, s.Root, s.Children, s.Kind, s.Args = 7, 7, 7, "other", nil }
	plan, err := tree.NewPlan(tree.New(page{}).Add(tree.New(page{}, stray)))
	require.NoError(t, err)
	s := plan.Specs[1]
	require.Equal(t, []any{0, 0, 0, "page", "{}"}, []any{s.Parent, s.Root, s.Children, s.Kind, string(s.Args)})
}

func TestAnOptionOfOnesOwnIsCheckedToo(t *testing.T) {
	t.Parallel()
	require.Equal(t, "dedup key", refused(t, tree.New(page{}, func(s *tree.Spec) { s.DedupKey = "a\x00" })).Field)
	require.Equal(t, "key", refused(t, tree.New(page{}, func(s *tree.Spec) { s.ChildKey = "a" })).Field)
}

func TestNumbersAndDurationsAreAcceptedUpToTheirLimits(t *testing.T) {
	t.Parallel()
	const most = tree.MaxDuration
	for name, option := range map[string]tree.Option{
		"lowest priority":     tree.Priority(-32_768),
		"highest priority":    tree.Priority(32_767),
		"one attempt":         tree.MaxAttempts(1),
		"most attempts":       tree.MaxAttempts(10_000),
		"no delay":            tree.Delay(0),
		"a nanosecond":        tree.Delay(1),
		"longest delay":       tree.Delay(most),
		"zero time":           tree.At(time.Time{}),
		"first year":          tree.At(time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)),
		"last year":           tree.At(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)),
		"default timeout":     tree.Timeout(0),
		"shortest timeout":    tree.Timeout(time.Millisecond),
		"longest timeout":     tree.Timeout(most),
		"no timeout":          tree.Timeout(tree.NoTimeout),
		"no max age":          tree.MaxAge(0),
		"longest max age":     tree.MaxAge(most),
		"keep nothing":        tree.KeepFor(0),
		"keep longest":        tree.KeepFor(most),
		"default backoff":     tree.WithBackoff(tree.Backoff{}),
		"shortest backoff":    tree.WithBackoff(tree.Backoff{Base: 1, Factor: 1, Cap: 1, Jitter: 1}),
		"longest backoff":     tree.WithBackoff(tree.Backoff{Base: most, Factor: 100, Cap: most}),
		"proceed":             tree.OnDead(tree.Proceed),
		"tolerate none":       tree.Tolerate(0),
		"tolerate most":       tree.Tolerate(tree.MaxNodes),
		"tolerate no share":   tree.TolerateRatio(0),
		"tolerate all":        tree.TolerateRatio(1),
		"dead letter if lost": tree.OnLost(tree.LostDeadLetter),
		"no tags":             tree.Tags(),
	} {
		_, err := tree.NewPlan(tree.New(page{}, option))
		require.NoError(t, err, name)
	}
}

func TestNumbersAndDurationsBeyondTheirLimitsAreRefused(t *testing.T) {
	t.Parallel()
	const most = tree.MaxDuration
	backoff := func(base time.Duration, factor float64, limit time.Duration, jitter float64) tree.Option {
		return tree.WithBackoff(tree.Backoff{Base: base, Factor: factor, Cap: limit, Jitter: jitter})
	}
	for _, c := range []struct {
		option        tree.Option
		field, remedy string
	}{
		{tree.Priority(-32_769), "priority", "outside -32768 to 32767"},
		{tree.Priority(32_768), "priority", "outside -32768 to 32767"},
		{tree.Priority(math.MaxInt), "priority", "outside"},
		{tree.MaxAttempts(0), "max attempts", "0 is outside 1 to 10000"},
		{tree.MaxAttempts(-1), "max attempts", "outside"},
		{tree.MaxAttempts(10_001), "max attempts", "outside"},
		{tree.Delay(-1), "delay", "-1ns is outside 0 to 87600h0m0s"},
		{tree.Delay(most + 1), "delay", "outside"},
		{tree.At(time.Date(0, 12, 31, 23, 59, 59, 0, time.UTC)), "due time", "year 0 is outside 1 to 9999"},
		{tree.At(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)), "due time", "year 10000"},
		// The year 9999 where it was written, and 10000 in UTC.
		{tree.At(time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("west", -2*60*60))), "due time", "year 10000"},
		{tree.Timeout(-2), "timeout", "use tree.NoTimeout"},
		{tree.Timeout(most + 1), "timeout", "outside"},
		{tree.Timeout(time.Millisecond - 1), "timeout", "below a millisecond"},
		{tree.MaxAge(-1), "max age", "outside"},
		{tree.MaxAge(most + 1), "max age", "outside"},
		{tree.KeepFor(-1), "keep for", "outside"},
		{tree.KeepFor(most + 1), "keep for", "outside"},
		{backoff(-1, 0, 0, 0), "backoff", "base -1ns"},
		{backoff(most+1, 0, 0, 0), "backoff", "base"},
		{backoff(0, 0, -1, 0), "backoff", "cap -1ns"},
		{backoff(0, 0, most+1, 0), "backoff", "cap"},
		{backoff(2, 0, 1, 0), "backoff", "cap 1ns is below the base 2ns"},
		{backoff(0, 0.99, 0, 0), "backoff", "factor"},
		{backoff(0, 100.1, 0, 0), "backoff", "factor"},
		{backoff(0, -2, 0, 0), "backoff", "factor"},
		{backoff(0, math.NaN(), 0, 0), "backoff", "factor NaN is outside 1 to 100"},
		{backoff(0, math.Inf(1), 0, 0), "backoff", "factor"},
		{backoff(0, 0, 0, -0.1), "backoff", "jitter"},
		{backoff(0, 0, 0, 1.1), "backoff", "jitter"},
		{backoff(0, 0, 0, math.NaN()), "backoff", "jitter"},
		{backoff(0, 0, 0, math.Inf(-1)), "backoff", "jitter"},
		{tree.OnDead("stop"), "on dead", `there are "wait", "proceed" and "fail"`},
		{tree.Group(""), "group", "is empty"},
		{tree.Limit(""), "limit", "is empty"},
		{tree.Group(strings.Repeat("g", tree.MaxKeyBytes+1)), "group", "more than 512"},
		{tree.Limit("l\x00"), "limit", "NUL"},
		{tree.Deadline(-1), "deadline", "outside"},
		{tree.Deadline(most + 1), "deadline", "outside"},
		{tree.OnDead(""), "on dead", "there are"},
		{tree.Tolerate(-1), "tolerate", "-1 is outside 0 to 1000000"},
		{tree.Tolerate(tree.MaxNodes + 1), "tolerate", "outside"},
		{tree.TolerateRatio(-0.01), "tolerate ratio", "-0.01 is outside 0 to 1"},
		{tree.TolerateRatio(1.01), "tolerate ratio", "outside"},
		{tree.TolerateRatio(math.NaN()), "tolerate ratio", "NaN is outside"},
		{tree.OnDuplicate("keep"), "on duplicate", `there are "ignore", "replace" and "skip"`},
		{tree.OnLost("ignore"), "on lost", `there are "retry" and "dead_letter"`},
		{nil, "options", "one is nil"},
	} {
		got := refused(t, tree.New(page{}, c.option))
		require.Equal(t, c.field, got.Field)
		require.Equal(t, "root", got.Path)
		require.Equal(t, "page", got.Kind, c.field)
		require.Contains(t, got.Problem, c.remedy)
	}
}
