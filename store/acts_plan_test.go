package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// TestActsTouchPagesByWhatTheyReachAndNotByTheTables steers, closes, opens, seals, waits for and stops jobs of small trees in tables
// of more than a thousand pages, and runs every statement of it again as a generic plan.
func TestActsTouchPagesByWhatTheyReachAndNotByTheTables(t *testing.T) {
	t.Parallel()
	const crowd = 30_000
	for _, analysed := range []string{"never", "when empty", "when full"} {
		t.Run(analysed, func(t *testing.T) {
			t.Parallel()
			k := newCrowd(t)
			w := k.worker()
			if analysed == "when empty" {
				k.exec(`ANALYZE`)
			}
			k.crowd(crowd)
			// Many others that close, run, are overdue one day, or are open.
			k.exec(`INSERT INTO coppice.jobs (id, root_id, state, kind, queue, round, worker_id, deadline_at, closing, args)
				SELECT i, i, 'running', 'task', 'crowd', 0, $1, now() + interval '1 day', CASE WHEN i % 2 = 0 THEN 'cancelled' END, '{}'
				FROM generate_series(2000000, 2000000 + $2::bigint) i`, int64(k.worker()), crowd)
			if analysed == "when full" {
				k.exec(`ANALYZE`)
			}
			s, r := k.recorded()
			ctx := t.Context()
			first := tree.Priority(-9)
			ids := k.insert(
				wood(wood(tree.New(task{}, first), wood()), tree.New(task{}, tree.Delay(time.Hour))), // 0 to 4
				open(), tree.New(task{}, first, tree.Deadline(time.Millisecond)), tree.New(task{}, first, tree.Dedup("k"), tree.Delay(time.Hour)), // 5 6 7
			)
			claims := k.claim(w, tree.DefaultQueue, 2)
			require.Len(t, claims, 2)
			must := func(_ any, err error) {
				t.Helper()
				require.NoError(t, err)
			}
			must(s.SaveProgress(ctx, w, claims[0].Fence, 0.5, []byte(`{"n": 1}`)))
			must(s.Await(ctx, ids))
			require.NoError(t, s.KeepOpen(ctx, ids[5], time.Hour))
			must(s.Seal(ctx, ids[5]))
			must(s.Reach(ctx, ids[1], store.ScopeBranch))
			must(s.Hold(ctx, ids[0], store.ScopeTree, me()))
			must(s.Release(ctx, ids[0], store.ScopeTree, me()))
			must(s.RunNow(ctx, ids[4], store.ScopeJob, me()))
			must(s.Told(ctx, w))
			must(s.CloseOverdue(ctx, 10))
			must(s.Cancel(ctx, ids[1], store.ScopeBranch, me()))
			must(s.Cancel(ctx, ids[0], store.ScopeTree, me()))
			must(s.ClosingTrees(ctx, 0, 10))
			got, err := s.Settle(ctx, w, []store.Ending{ending(&claims[0], store.EndStopped), failed(&claims[1])})
			require.NoError(t, err)
			require.Empty(t, got.Lost)
			must(s.Sweep(ctx, ids[0]))
			must(s.Sweep(ctx, ids[5]))
			must(s.Insert(ctx, planOf(t, replacing("new"))))
			for sql, pages := range k.pagesOf(r.sent) {
				require.Less(t, pages, 600, "pages of %s", sql)
			}
			require.Greater(t, k.number(`SELECT pg_relation_size('coppice.jobs') / 8192`), 1_000)
			k.exec(`DELETE FROM coppice.jobs WHERE id BETWEEN 2000000 AND 2000000 + $1::bigint`, crowd)
		})
	}
}

func TestAJobThatTheServerWillNotCloseHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	due := tree.Deadline(time.Millisecond)
	ids := k.insert(tree.New(task{}, due), tree.New(task{}, due, tree.Queue("refused")), tree.New(task{}, due))
	k.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF old.queue = 'refused' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN old; END $$;
		CREATE TRIGGER refuse BEFORE DELETE ON coppice.jobs FOR EACH ROW EXECUTE FUNCTION refuse()`)
	k.exec(`UPDATE coppice.jobs SET deadline_at = now() - interval '1 second'`)
	got, err := k.CloseOverdue(t.Context(), 10)
	require.ErrorContains(t, err, "not this one")
	require.ErrorContains(t, err, "job "+ids[1].String())
	require.Equal(t, 2, got.Cancelled)
	k.requireState(tree.Cancelled, ids[0], ids[2])
	k.requireState(tree.Ready, ids[1])
	k.exec(`DROP TRIGGER refuse ON coppice.jobs`)
	got, err = k.CloseOverdue(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, got.Cancelled)
}
