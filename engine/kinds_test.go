package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// album both works and finalizes.
type album struct{}

func (album) Kind() string { return "album" }

func worksAlbums(context.Context, *engine.Job[album]) (string, error) { return "worked", nil }

func finalizesAlbums(context.Context, *engine.Job[album], *engine.Children) (string, error) {
	return "finalized", nil
}

// another is a second worker process of its own registry.
func (k *kit) another(config engine.WorkerConfig, register func(*engine.Registry)) {
	k.t.Helper()
	mine := k.reg
	k.reg = engine.NewRegistry()
	register(k.reg)
	k.work(config)
	k.reg = mine
}

func TestAJobOfAnUnknownKindStaysForAWorkerThatKnowsIt(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(context.Context, *engine.Job[task]) (any, error) { return nil, nil })
	k.work(engine.WorkerConfig{})
	unknown := k.insert(tree.New(album{}, tree.Priority(-1))).ID
	for range 20 { // each of them is claimed past the unknown one
		k.await(k.insert(tree.New(task{})).ID, tree.Completed)
	}
	row := k.await(unknown, tree.Ready)
	require.Zero(t, row.Attempt)
	require.Zero(t, row.ClaimSeq)
	k.another(engine.WorkerConfig{}, func(reg *engine.Registry) { engine.MustWork(reg, worksAlbums) })
	require.Equal(t, `"worked"`, string(k.await(unknown, tree.Completed).Result))
}

func TestAWorkerTakesOfAKindOnlyWhatItHasAHandlerFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		knows, learns func(*engine.Registry)
		first, second int // index among the inserted
		result        string
	}{
		"Work without Finalize": {
			func(reg *engine.Registry) { engine.MustWork(reg, worksAlbums) },
			func(reg *engine.Registry) { engine.MustFinalize(reg, finalizesAlbums) }, 0, 1, `"finalized"`,
		},
		"Finalize without Work": {
			func(reg *engine.Registry) { engine.MustFinalize(reg, finalizesAlbums) },
			func(reg *engine.Registry) { engine.MustWork(reg, worksAlbums) }, 1, 0, `"worked"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			ids := []tree.ID{k.insert(tree.New(album{})).ID, k.insert(tree.New(album{}).Add()).ID}
			k.another(engine.WorkerConfig{}, c.knows)
			k.await(ids[c.first], tree.Completed)
			require.Zero(t, k.await(ids[c.second], tree.Ready).Attempt)
			k.another(engine.WorkerConfig{}, c.learns)
			require.Equal(t, c.result, string(k.await(ids[c.second], tree.Completed).Result))
		})
	}
}

func TestAnAliasTakesJobsOfItsOldName(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	kinds := make(chan string, 3)
	engine.MustWork(k.reg, func(_ context.Context, job *engine.Job[album]) (engine.None, error) {
		kinds <- job.Kind
		return engine.None{}, nil
	}, engine.Alias("task", "older"))
	k.work(engine.WorkerConfig{})
	k.insert(tree.New(task{}))
	require.Equal(t, "task", receive(t, kinds), "a job keeps the kind that it was inserted with")
	k.insert(tree.New(album{}))
	require.Equal(t, "album", receive(t, kinds))
}
