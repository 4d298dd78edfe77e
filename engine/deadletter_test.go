package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// TestADeadLetterIsTheWholeRow compares every column that the live row had while its last attempt ran with what
// the dead-letter queue, or the history, has. A column that is added and forgotten in the move fails here.
func TestADeadLetterIsTheWholeRow(t *testing.T) {
	t.Parallel()
	for table, c := range map[string]struct {
		err     error
		changed map[string]any // by column: what the move makes of it
	}{
		"dead_jobs": {engine.Fatal(errBoom), map[string]any{"state": "dead", "dedup_key": nil}},
		"history":   {engine.Cancel(errBoom), map[string]any{"state": "cancelled"}},
	} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			running, goOn := make(chan tree.ID), make(chan struct{})
			k.onRoll(func(_ context.Context, job *engine.Job[roll], _ *engine.Children) (any, error) {
				if job.ParentID == 0 {
					return nil, nil
				}
				running <- job.ID
				<-goOn
				return nil, c.err
			})
			k.work(engine.WorkerConfig{})
			root := k.insert(tree.New(roll{}, tree.OnDead(tree.Proceed)).Add(tree.New(roll{7},
				tree.Queue(tree.DefaultQueue), tree.Priority(3), tree.At(time.Now().Add(-time.Hour)), tree.MaxAttempts(4),
				tree.Timeout(time.Hour), tree.MaxAge(2*time.Hour), tree.WithBackoff(tree.Backoff{Factor: 1.5}), tree.Dedup("d"),
				tree.Key("k"), tree.Tags("a", "b,\"c\\"), tree.Meta("m", "n"), tree.KeepFor(3*time.Hour),
				tree.OnDead(tree.Proceed), tree.OnLost(tree.LostDeadLetter)).Add()))
			id := receive(t, running)
			// What no option sets yet, the move must take along all the same.
			k.exec(`UPDATE coppice.jobs SET age_from = now(), deadline_at = now() + interval '1 day', seal_by = now(),
				stalled_at = now(), completed = 1, cancelled = 2, removed = 3, lost = 4, snoozes = 5, parent_round = 6,
				tolerate_count = 7, tolerate_ratio = 0.5, progress = 0.25, group_key = 'g', limit_key = 'l', effect = 'e',
				trace = '{"t":  1}', checkpoint = '[1 ,2]', held = true, hold_below = true, closing_by = 'b', closing_why = 'w' WHERE id = $1`, id)
			read := func(from string) (row map[string]any) {
				text := one[string](k, `SELECT row_to_json(j)::text FROM coppice.`+from+` j WHERE id = $1`, id)
				require.NoError(t, json.Unmarshal([]byte(text), &row))
				return row
			}
			live := read("jobs")
			for column, v := range live {
				switch column {
				case "pending", "dead", "closing": // zero and empty here
				default:
					require.NotNil(t, v, "the test leaves %s empty", column)
				}
			}
			close(goOn)
			k.await(root.ID, tree.Completed)
			gone := read(table)
			for column, v := range c.changed {
				live[column] = v
			}
			for column, v := range live {
				got, ok := gone[column]
				require.True(t, ok, "%s has no column %s", table, column)
				require.Equal(t, v, got, column)
			}
			require.Equal(t, "boom", gone["error"])
			if table == "dead_jobs" {
				require.Equal(t, "d", gone["dropped_key"])
				require.Equal(t, "fatal", gone["reason"])
				require.NotNil(t, gone["failed_at"])
				require.Equal(t, false, gone["kept"])
			}
		})
	}
}

func TestADedupKeyIsFreeOnceItsJobIsDead(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.onTask(func(_ context.Context, job *engine.Job[task]) (any, error) { return nil, engine.Fatal(nil) })
	first := k.insert(tree.New(task{}, tree.Dedup("key")))
	require.True(t, k.insert(tree.New(task{}, tree.Dedup("key"))).Duplicate)
	k.work(engine.WorkerConfig{})
	require.Equal(t, "key", k.await(first.ID, tree.Dead).DroppedKey)
	second := k.insert(tree.New(task{}, tree.Dedup("key")))
	require.False(t, second.Duplicate)
	require.Equal(t, "key", k.await(second.ID, tree.Dead).DroppedKey, "two dead letters may have had one key")
}
