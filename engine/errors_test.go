package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

func TestWhateverAnErrorSaysItIsStoredAndTheJobGoesOn(t *testing.T) {
	t.Parallel()
	cases := []struct{ text, want string }{
		{"", ""},
		{"a\x00b", "a\u2400b"},
		{"a\xffb", "a\uFFFDb"},
		{"half \xed\xa0\x80 surrogate", "half \uFFFD surrogate"},
		{"<script>alert('&')</script>", "<script>alert('&')</script>"},
		{"'); DROP TABLE jobs; --", "'); DROP TABLE jobs; --"},
		{`{"a":"\u0000"}`, `{"a":"\u0000"}`},
		{"h\u00e4\u00df \U0001F333", "h\u00e4\u00df \U0001F333"},
		{"head " + strings.Repeat("x", 10<<20) + " tail", ""},
		{strings.Repeat("\x00", 10<<20), ""},
		{strings.Repeat("\xff", 10<<20), ""},
		{strings.Repeat("\x80", 10<<20), ""},
		{strings.Repeat("\U0001F333", 1<<20), ""},
		{"\\x00 is an escape, and {curly, \"quoted\"}", "\\x00 is an escape, and {curly, \"quoted\"}"},
	}
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) {
		err := errors.New(cases[job.Args.N/2].text)
		if job.Args.N%2 == 1 {
			err = engine.Cancel(err)
		}
		return nil, err
	})
	k.work(engine.WorkerConfig{Backoff: fast()})
	for i, c := range cases {
		row := k.await(k.insert(tree.New(task{2 * i}, tree.MaxAttempts(2))).ID, tree.Dead)
		failures := k.failures(row.ID)
		require.Len(t, failures, 2)
		require.Equal(t, failures[1].Error, row.Error)
		require.LessOrEqual(t, len(row.Error), tree.MaxErrorBytes)
		require.True(t, utf8.ValidString(row.Error))
		if len(c.text) < 1_000 {
			require.Equal(t, c.want, row.Error)
		} else {
			require.Contains(t, row.Error, "[...]")
		}
		cancelled := k.await(k.insert(tree.New(task{2*i + 1})).ID, tree.Cancelled)
		require.Equal(t, row.Error, cancelled.Error)
	}
	long := one[string](k, `SELECT error FROM coppice.dead_jobs WHERE error LIKE 'head %'`)
	require.True(t, strings.HasSuffix(long, " tail"), "an error's end says as much as its start")
}

func TestHugeErrorsOfManyChildrenAreBounded(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const children = 200
	text := strings.Repeat("no ", 1<<20)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, engine.Fatal(errors.New(text)) })
	k.onRoll(func(ctx context.Context, _ *engine.Job[roll], kids *engine.Children) (any, error) {
		n := 0
		for d, err := range kids.DeadJobs(ctx) {
			if err != nil {
				return nil, err
			}
			if d.Reason != tree.ReasonFatal || len(d.Error) > tree.MaxErrorBytes {
				return nil, errBoom
			}
			n++
		}
		return n, nil
	})
	k.work(engine.WorkerConfig{})
	root := tree.New(roll{}, tree.OnDead(tree.Proceed))
	for range children {
		root.Add(tree.New(task{}))
	}
	require.Equal(t, "200", string(k.await(k.insert(root).ID, tree.Completed).Result))
	require.LessOrEqual(t, one[int](k, `SELECT sum(octet_length(error)) FROM coppice.job_errors`), children*tree.MaxErrorBytes)
}
