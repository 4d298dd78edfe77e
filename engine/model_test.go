package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

type plantArgs struct{ N int }

func (plantArgs) Kind() string { return "plant" }

// garden finds the plant that a job stands for.
type garden struct {
	mu     sync.Mutex
	plants []*plant
}

func (g *garden) plant() *plant {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &plant{number: len(g.plants)}
	g.plants = append(g.plants, p)
	return p
}

func (g *garden) find(n int) *plant {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.plants[n]
}

// play does what the plant's script says next. value is its result where it completes with one.
func (p *plant) play(value int) (any, error) {
	call := int(p.calls.Add(1))
	act := p.script[min(call, len(p.script))-1]
	if call >= len(p.script) {
		defer p.ends.Add(1)
	}
	switch act {
	case "fail", "spent":
		return nil, errors.New("failed as planned")
	case "panic", "spent by panic":
		panic("panicked as planned")
	case "retry after":
		return nil, engine.RetryAfter(0, errors.New("failed as planned"))
	case "snooze":
		return nil, engine.Snooze(0)
	case "snooze a little":
		return nil, engine.Snooze(time.Millisecond)
	case "fatal":
		return nil, engine.Fatal(errors.New("dead as planned"))
	case "cancel":
		return nil, engine.Cancel(errors.New("cancelled as planned"))
	case "silent":
		return nil, nil //nolint:nilnil // a handler without a result
	}
	return value, nil
}

// tend registers the garden's handlers.
func (g *garden) tend(reg *engine.Registry) {
	engine.MustWork(reg, func(_ context.Context, job *engine.Job[plantArgs]) (any, error) {
		p := g.find(job.Args.N)
		return p.play(p.number)
	})
	engine.MustFinalize(reg, func(ctx context.Context, job *engine.Job[plantArgs], kids *engine.Children) (any, error) {
		p := g.find(job.Args.N)
		for _, kid := range p.kids {
			if kid.ends.Load() == 0 {
				p.early.Add(1)
			}
		}
		if kids.Total() != len(p.kids) {
			p.early.Add(1)
		}
		value := p.number
		for kid, err := range engine.Results[int](ctx, kids) {
			if err != nil {
				return nil, err
			}
			value += kid.Value
		}
		return p.play(value)
	})
}

// modelRounds is how often a model test is to be repeated: COPPICE_MODEL_STEPS asks for about so many steps in all, of
// which one round makes the given number.
func modelRounds(t *testing.T, each int) int {
	t.Helper()
	steps, err := strconv.Atoi(os.Getenv("COPPICE_MODEL_STEPS"))
	if err != nil {
		return 1
	}
	return max(1, steps/each)
}

// TestRandomTreesEndAsTheModelSays runs trees of every shape through three workers, each with a client and two of the three
// queues of its own, and compares how every job ended with what follows from the tree.
func TestRandomTreesEndAsTheModelSays(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	g := &garden{}
	for _, queues := range [][2]string{{"oak", "ash"}, {"ash", "elm"}, {"elm", "oak"}} {
		config, err := pgxpool.ParseConfig(k.db.URL)
		require.NoError(t, err)
		config.MaxConns = 4
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		client, err := engine.NewClient(pool, engine.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		own := &kit{Client: client, t: t, db: k.db, reg: engine.NewRegistry()}
		g.tend(own.reg)
		t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })
		own.work(engine.WorkerConfig{
			Queues:       map[string]engine.QueueConfig{queues[0]: {MaxRunning: 3}, queues[1]: {MaxRunning: 2}},
			PollInterval: 20 * time.Millisecond,
		})
	}
	for range modelRounds(t, 3_000) {
		rapid.Check(t, func(rt *rapid.T) { growAndCompare(rt, k, g) })
	}
}

func growAndCompare(t *rapid.T, k *kit, g *garden) {
	var roots []*plant
	var nodes []*tree.Node
	for range rapid.IntRange(1, 4).Draw(t, "trees") {
		p := drawPlant(t, g, rapid.IntRange(0, 6).Draw(t, "depth"))
		roots = append(roots, p)
		nodes = append(nodes, p.node(tree.Backoff{Base: time.Millisecond, Factor: 1, Cap: time.Millisecond}))
	}
	receipts, err := k.InsertMany(k.t.Context(), nodes...)
	require.NoError(t, err)
	places := map[tree.ID]*plant{}
	expected := map[*plant]fate{}
	for i, root := range roots {
		root.fates(expected)
		for n, p := range root.all() {
			places[receipts[i].IDs[n]] = p
		}
	}
	first := receipts[0].ID
	require.Eventually(t, func() bool {
		var busy int
		err := k.db.Pool.QueryRow(k.t.Context(), `SELECT count(*) FROM coppice.jobs WHERE id >= $1 AND state <> 'waiting'`, int64(first)).Scan(&busy)
		return err == nil && busy == 0
	}, patience, 2*time.Millisecond, "the trees do not come to rest")
	ended := readEnds(t, k, first)
	require.Len(t, ended, len(places))
	for id, p := range places {
		want, got := expected[p], ended[id]
		require.Equal(t, want.State, got.State, "job %d, plant %d, script %v", id, p.number, p.script)
		require.Equal(t, want.Counts, got.Counters, "job %d, plant %d", id, p.number)
		require.EqualValues(t, want.Calls, p.calls.Load(), "handler calls of job %d, script %v", id, p.script)
		require.LessOrEqual(t, p.ends.Load(), int32(1), "job %d ended twice", id)
		require.Zero(t, p.early.Load(), "job %d ran before its children had settled", id)
		if want.Result {
			require.JSONEq(t, strconv.Itoa(want.Value), string(got.Result), "result of job %d", id)
		} else {
			require.Empty(t, got.Result)
		}
	}
	report, err := k.Store().Check(k.t.Context(), store.CheckOptions{})
	require.NoError(t, err)
	require.True(t, report.OK(), report.String())
}

// endedRow is what the model knows of a job.
type endedRow struct {
	ID     tree.ID         `db:"id"`
	State  tree.State      `db:"state"`
	Result json.RawMessage `db:"result"`
	store.Counters
}

func readEnds(t *rapid.T, k *kit, first tree.ID) map[tree.ID]endedRow {
	const columns = `id, state, pending, completed, dead, cancelled, removed`
	rows, err := k.db.Pool.Query(k.t.Context(), `
		SELECT `+columns+`, NULL::json AS result FROM coppice.jobs WHERE id >= $1
		UNION ALL SELECT `+columns+`, NULL FROM coppice.dead_jobs WHERE id >= $1
		UNION ALL SELECT `+columns+`, result FROM coppice.history WHERE id >= $1`, int64(first))
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[endedRow])
	require.NoError(t, err)
	out := make(map[tree.ID]endedRow, len(all))
	for _, r := range all {
		out[r.ID] = r
	}
	return out
}
