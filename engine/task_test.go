package engine_test

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// task is the job of tests that care about outcomes: its handler is the test's own, and N tells one from another.
type task struct {
	N int `json:"n"`
}

func (task) Kind() string { return "task" }

// roll is a finalizer of tasks.
type roll struct {
	N int `json:"n"`
}

func (roll) Kind() string { return "roll" }

// fast spaces attempts so closely that a test need not wait.
func fast() *tree.Backoff {
	return &tree.Backoff{Base: time.Millisecond, Factor: 1, Cap: time.Millisecond}
}

// onTask registers f for tasks.
func (k *kit) onTask(f func(ctx context.Context, job *engine.Job[task]) (any, error), options ...engine.HandlerOption) {
	k.t.Helper()
	require.NoError(k.t, engine.Work(k.reg, f, options...))
}

// onRoll registers f for finalizers of kind roll.
func (k *kit) onRoll(f func(ctx context.Context, job *engine.Job[roll], kids *engine.Children) (any, error), options ...engine.HandlerOption) {
	k.t.Helper()
	require.NoError(k.t, engine.Finalize(k.reg, f, options...))
}

// fails registers a handler of tasks that returns err, and runs one such job until it is in the state.
func (k *kit) fails(err error, state tree.State, options ...tree.Option) *store.JobRow {
	k.t.Helper()
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, err })
	k.work(engine.WorkerConfig{Backoff: fast()})
	return k.await(k.insert(tree.New(task{}, options...)).ID, state)
}

// failures reads the failed attempts of a job, oldest first.
func (k *kit) failures(id tree.ID) []store.AttemptError {
	k.t.Helper()
	rows, err := k.Store().Errors(k.t.Context(), id, 0)
	require.NoError(k.t, err)
	for i, j := 0, len(rows)-1; i < j; i, j = i+1, j-1 {
		rows[i], rows[j] = rows[j], rows[i]
	}
	return rows
}

// exec runs one statement on the test's database.
func (k *kit) exec(sql string, args ...any) {
	k.t.Helper()
	_, err := k.db.Pool.Exec(k.t.Context(), sql, args...)
	require.NoError(k.t, err)
}

// one reads a single value from the test's database.
func one[T any](k *kit, sql string, args ...any) (v T) {
	k.t.Helper()
	require.NoError(k.t, k.db.Pool.QueryRow(k.t.Context(), sql, args...).Scan(&v))
	return v
}

// eventually polls until the condition holds. Use it for what has no signal of its own.
func (k *kit) eventually(holds func() bool, message string, a ...any) {
	k.t.Helper()
	require.Eventually(k.t, holds, patience, 5*time.Millisecond, append([]any{message}, a...)...)
}
