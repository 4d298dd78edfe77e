package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// rude panics wherever the engine calls its args.
type rude struct{}

func (rude) Kind() string                 { return "rude" }
func (*rude) UnmarshalJSON([]byte) error  { panic("unmarshal") }
func (rude) MarshalJSON() ([]byte, error) { return []byte(`{}`), nil }

// rudeResult panics when it is encoded.
type rudeResult struct{}

func (rudeResult) MarshalJSON() ([]byte, error) { panic("marshal") }

// mute panics when it is asked for its text.
type mute struct{}

func (mute) Error() string { panic("no text") }

// unnameable panics when it is asked for its kind.
type unnameable struct{ name *string }

func (u unnameable) Kind() string { return *u.name }

func TestAPanicFailsTheAttemptAndKeepsItsStack(t *testing.T) {
	t.Parallel()
	cases := map[int]struct {
		panics func()
		text   string
	}{
		0: {func() { panic("at the disco") }, "panic: at the disco"},
		1: {func() { panic(errBoom) }, "panic: boom"},
		2: {func() { panic(engine.Fatal(errBoom)) }, "panic: boom"},
		3: {func() { panic(nil) }, "panic: panic called with nil argument"}, //nolint:govet // it is what the test is about
		4: {func() { panic(mute{}) }, ""},
		5: {func() { _ = []int{}[len(os.Args)] }, ""}, // the runtime's own
		6: {func() { runtime.Goexit() }, "the handler ended its goroutine (runtime.Goexit)"},
		7: {func() { panic(strings.Repeat("x", 10<<20)) }, ""},
	}
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		blowUp(cases[job.Args.N].panics)
		return nil, nil
	})
	k.work(engine.WorkerConfig{Backoff: fast(), Queues: map[string]engine.QueueConfig{tree.DefaultQueue: {MaxRunning: 2}}})
	ids := map[int]tree.ID{}
	for n := range cases {
		ids[n] = k.insert(tree.New(task{n}, tree.MaxAttempts(2))).ID
	}
	for n, c := range cases {
		row := k.await(ids[n], tree.Dead)
		require.Equal(t, tree.ReasonAttemptsSpent, row.Reason, "a panic is retried like any failure: case %d", n)
		failures := k.failures(row.ID)
		require.Len(t, failures, 2)
		for _, f := range failures {
			require.Equal(t, tree.OutcomePanic, f.Outcome)
			require.Contains(t, f.Stack, "blowUp", "case %d", n)
			require.LessOrEqual(t, len(f.Stack), tree.MaxStackBytes)
			require.LessOrEqual(t, len(f.Error), tree.MaxErrorBytes)
			if c.text != "" {
				require.Equal(t, c.text, f.Error)
			}
		}
	}
	// Two slots have outlived sixteen ended goroutines.
	k.await(k.insert(tree.New(task{100}, tree.MaxAttempts(1))).ID, tree.Dead)
}

// blowUp is to be seen in the stacks.
//
//go:noinline
func blowUp(f func()) { f() }

func TestAnErrorWithoutATextIsRecordedByItsType(t *testing.T) {
	t.Parallel()
	row := newKit(t).fails(engine.Fatal(mute{}), tree.Dead)
	require.Contains(t, row.Error, "its Error method panicked")
}

func TestArgsThatDoNotDecodeAreDeadAtOnceWithTheirBytesIntact(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) {
		t.Error("the handler ran")
		return nil, nil
	})
	cases := []string{
		`{"n": "seven",  "z":1, "a":2, "a":3}`, // odd spaces, order and a key twice
		`[1,2,3]`,
		`"text"`,
		`{"n": 9223372036854775808}`,
		`{"n":1.5}`,
	}
	ids := make([]tree.ID, len(cases))
	for i, args := range cases {
		ids[i] = k.insert(tree.New(task{}, tree.Queue("later"))).ID
		k.exec(`UPDATE coppice.jobs SET args = $2::text::json WHERE id = $1`, ids[i], args)
	}
	k.work(engine.WorkerConfig{Queues: map[string]engine.QueueConfig{"later": {}}})
	for i, args := range cases {
		row := k.await(ids[i], tree.Dead)
		require.Equal(t, tree.ReasonUndecodable, row.Reason)
		require.Equal(t, 1, row.Attempt, "no retry mends bytes")
		require.Equal(t, args, string(row.Args))
		require.Equal(t, tree.OutcomeUndecodable, k.failures(row.ID)[0].Outcome)
		require.Contains(t, row.Error, "args do not decode: json: ")
	}
}

func TestAPanicWhileDecodingOrEncodingIsAPanicOfTheHandler(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	engine.MustWork(k.reg, func(context.Context, *engine.Job[rude]) (engine.None, error) { return engine.None{}, nil })
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return rudeResult{}, nil })
	k.work(engine.WorkerConfig{Backoff: fast()})
	for node, text := range map[*tree.Node]string{
		tree.New(rude{}, tree.MaxAttempts(2)): "panic: unmarshal",
		tree.New(task{}, tree.MaxAttempts(2)): "panic: marshal",
	} {
		row := k.await(k.insert(node).ID, tree.Dead)
		require.Equal(t, text, row.Error)
		require.Equal(t, tree.ReasonAttemptsSpent, row.Reason)
		require.Equal(t, tree.OutcomePanic, k.failures(row.ID)[0].Outcome)
	}
}

func TestAKindThatPanicsIsRefusedWithAnError(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	err := engine.Work(k.reg, func(context.Context, *engine.Job[unnameable]) (engine.None, error) { return engine.None{}, nil })
	require.ErrorContains(t, err, "Kind must work on the zero value")
	_, err = k.Insert(t.Context(), tree.New(unnameable{}))
	require.ErrorIs(t, err, tree.ErrInvalid)
}

func TestAResultThatCannotBeStoredIsDeadAtOnce(t *testing.T) {
	t.Parallel()
	cases := []struct {
		result any
		text   string
	}{
		{strings.Repeat("x", tree.MaxResultBytes), "262146 bytes of JSON are more than 262144"},
		{"a\x00b", "NUL"},
		{"a\xffb", "not valid UTF-8"},
		{map[string]any{"deep": []string{"\xc3\x28"}}, "not valid UTF-8"},
		{json.RawMessage(`"\ud800"`), "half of a surrogate pair"},
		{json.RawMessage("\"\xff\""), "not valid UTF-8"},
		{json.RawMessage(`{`), "unexpected end of JSON input"},
		{make(chan int), "unsupported type: chan int"},
		{func() {}, "unsupported type: func()"},
		{nested(tree.MaxJSONDepth + 1), "nested deeper"},
	}
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) { return cases[job.Args.N].result, nil })
	rolled := make(chan int, 1)
	k.onRoll(func(_ context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		rolled <- kids.Dead
		return nil, nil
	})
	k.work(engine.WorkerConfig{})
	root := tree.New(roll{}, tree.OnDead(tree.Proceed))
	for i := range cases {
		root.Add(tree.New(task{i}))
	}
	r := k.insert(root)
	require.Equal(t, len(cases), receive(t, rolled))
	for i, c := range cases {
		row := k.await(r.IDs[i+1], tree.Dead)
		require.Equal(t, tree.ReasonBadResult, row.Reason)
		require.Equal(t, 1, row.Attempt)
		require.Contains(t, row.Error, "result cannot be stored: ")
		require.Contains(t, row.Error, c.text)
		require.Equal(t, tree.OutcomeBadResult, k.failures(row.ID)[0].Outcome)
	}
}

func nested(depth int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", depth) + strings.Repeat("]", depth))
}

func TestAResultUpToTheLimitIsStored(t *testing.T) {
	t.Parallel()
	cases := []any{
		strings.Repeat("x", tree.MaxResultBytes-2), nested(tree.MaxJSONDepth), "a real \uFFFD", "\U0001F333", json.RawMessage(`"\ud83c\udf33"`),
	}
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) { return cases[job.Args.N], nil })
	k.work(engine.WorkerConfig{})
	for i, c := range cases {
		want, err := json.Marshal(c)
		require.NoError(t, err)
		row := k.await(k.insert(tree.New(task{i})).ID, tree.Completed)
		require.Equal(t, string(want), string(row.Result))
	}
}

func TestTheLimitOfResultsIsTheWorkers(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		return strings.Repeat("x", job.Args.N), nil
	})
	k.work(engine.WorkerConfig{MaxResultBytes: 10})
	k.await(k.insert(tree.New(task{8})).ID, tree.Completed)
	require.Contains(t, k.await(k.insert(tree.New(task{9})).ID, tree.Dead).Error, "11 bytes of JSON are more than 10")
}

func TestNumbersBeyondWhatAFloatHoldsAreUntouched(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const huge = 1<<53 + 1
	results := make(chan int, 1)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		if job.Args.N != huge {
			return nil, engine.Fatal(fmt.Errorf("got %d", job.Args.N))
		}
		return job.Args.N, nil
	})
	k.onRoll(func(ctx context.Context, job *engine.Job[roll], kids *engine.Children) (any, error) {
		for r, err := range engine.Results[int](ctx, kids) {
			if err != nil {
				return nil, err
			}
			results <- r.Value
		}
		return nil, engine.Fatal(nil)
	})
	k.work(engine.WorkerConfig{})
	r := k.insert(tree.New(roll{-huge}).Add(tree.New(task{huge})))
	require.Equal(t, huge, receive(t, results))
	require.Equal(t, `{"n":-9007199254740993}`, string(k.await(r.ID, tree.Dead).Args))
	require.Equal(t, `9007199254740993`, string(k.await(r.IDs[1], tree.Completed).Result))
}
