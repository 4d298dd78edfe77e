package store_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func grouped(key string, options ...tree.Option) *tree.Node {
	return tree.New(task{}, append(options, tree.Group(key))...)
}

func limited(key string, options ...tree.Option) *tree.Node {
	return tree.New(task{}, append(options, tree.Limit(key))...)
}

func idsOf(claims []store.Claim) []tree.ID {
	var ids []tree.ID
	for i := range claims {
		ids = append(ids, claims[i].ID)
	}
	return ids
}

func TestJobsOfAGroupRunOneAtATimeInOrderAndTheRetriedKeepsItsPlace(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(grouped("a"), grouped("b", tree.Priority(5)), grouped("a", tree.Priority(-5)), wood(), grouped("b", tree.Delay(time.Hour)), grouped("b"))
	claims := k.claim(w, tree.DefaultQueue, 10)
	require.Equal(t, []tree.ID{ids[0], ids[3], ids[1]}, idsOf(claims), "the first of each group, and what has none")
	require.Empty(t, k.claim(w, tree.DefaultQueue, 10))
	k.settle(w, failed(&claims[0]))
	again := k.claim(w, tree.DefaultQueue, 10)
	require.Equal(t, []tree.ID{ids[0]}, idsOf(again))
	back := failed(&again[0])
	back.Delay = time.Hour
	k.settle(w, back)
	require.Empty(t, k.claim(w, tree.DefaultQueue, 10), "what backs off keeps its place")
	_, err := k.RunNow(t.Context(), ids[0], store.ScopeJob, me())
	require.NoError(t, err)
	again = k.claim(w, tree.DefaultQueue, 10)
	require.Equal(t, []string{tree.DefaultQueue}, k.settle(w, dead(&again[0])).Woken, "somebody is to look who is next")
	require.Equal(t, []tree.ID{ids[2]}, idsOf(k.claim(w, tree.DefaultQueue, 10)))
	k.settle(w, completed(&claims[2]))
	require.Empty(t, k.claim(w, tree.DefaultQueue, 10), "what is due later holds up those behind it")
	require.Equal(t, 1, k.cancel(ids[4], store.ScopeJob).Cancelled)
	require.Equal(t, []tree.ID{ids[5]}, idsOf(k.claim(w, tree.DefaultQueue, 10)), "unless it is cancelled")
}

func TestATreesParentAndChildrenInOneGroupDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	deep := grouped("g").Add(grouped("g").Add(grouped("g"), grouped("g")), grouped("g"))
	ids := k.insert(deep)
	var order []tree.ID
	for range len(ids) {
		claims := k.claim(w, tree.DefaultQueue, 10)
		require.Len(t, claims, 1)
		order = append(order, claims[0].ID)
		if claims[0].ID == ids[4] { // a leaf that fans out into its own group
			got, err := k.FanOut(t.Context(), w, claims[0].Fence, k.children(grouped("g")))
			require.NoError(t, err)
			require.Equal(t, []string{tree.DefaultQueue, tree.DefaultQueue}, got.Woken)
			claims = k.claim(w, tree.DefaultQueue, 10)
			require.Len(t, claims, 1)
			require.Equal(t, ids[4], claims[0].ParentID)
			k.settle(w, completed(&claims[0]))
			claims = k.claim(w, tree.DefaultQueue, 10)
			require.Equal(t, []tree.ID{ids[4]}, idsOf(claims))
		}
		k.settle(w, completed(&claims[0]))
	}
	require.Equal(t, []tree.ID{ids[2], ids[3], ids[1], ids[4], ids[0]}, order)
}

func TestAHeldHeadHoldsItsGroupUpAndAReleasedOneMovesOn(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(grouped("g"), grouped("g"), limited("l"), limited("l"))
	require.NoError(t, k.SetLimit(t.Context(), "l", store.Limit{MaxRunning: 1}, me()))
	_, err := k.Hold(t.Context(), ids[0], store.ScopeJob, me())
	require.NoError(t, err)
	claims := k.claim(w, tree.DefaultQueue, 10)
	require.Equal(t, []tree.ID{ids[2]}, idsOf(claims))
	_, err = k.Hold(t.Context(), ids[3], store.ScopeJob, me()) // parked, and held now
	require.NoError(t, err)
	k.settle(w, completed(&claims[0]))
	require.Empty(t, k.claim(w, tree.DefaultQueue, 10))
	for _, id := range []tree.ID{ids[0], ids[3]} {
		_, err = k.Release(t.Context(), id, store.ScopeJob, me())
		require.NoError(t, err)
	}
	claims = k.claim(w, tree.DefaultQueue, 10)
	require.Equal(t, []tree.ID{ids[0], ids[3]}, idsOf(claims))
	k.settle(w, completed(&claims[0]), completed(&claims[1]))
	require.Equal(t, []tree.ID{ids[1]}, idsOf(k.claim(w, tree.DefaultQueue, 10)))
}

func TestALowerIdThatCommitsLateIsNext(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	tx, err := k.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	plan, err := tree.NewPlan(grouped("g"))
	require.NoError(t, err)
	late, err := k.InsertTx(t.Context(), store.PgxTx(tx), plan)
	require.NoError(t, err)
	ids := k.insert(grouped("g"), grouped("g"))
	claims := k.claim(w, tree.DefaultQueue, 10)
	require.Equal(t, ids[:1], idsOf(claims))
	require.NoError(t, tx.Commit(t.Context()))
	require.Empty(t, k.claim(w, tree.DefaultQueue, 10))
	k.settle(w, completed(&claims[0]))
	claims = k.claim(w, tree.DefaultQueue, 10)
	require.Equal(t, []tree.ID{late[0].ID}, idsOf(claims))
	k.settle(w, failed(&claims[0]))
	claims = k.claim(w, tree.DefaultQueue, 10)
	require.Equal(t, []tree.ID{late[0].ID}, idsOf(claims))
}

func TestAClaimDoesNotSpinOnJobsThatOthersHaveLocked(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	ids := k.insert(grouped("a"), grouped("b"))
	commit := k.lock(`UPDATE coppice.jobs SET priority = priority WHERE id = ANY ($1)`, ids)
	got, err := k.Claim(t.Context(), request(w, tree.DefaultQueue, 10))
	require.NoError(t, err)
	require.Empty(t, got.Jobs)
	require.True(t, got.Careful)
	require.False(t, got.More, "there is nothing to be had by asking again at once")
	commit()
	require.Len(t, k.claim(w, tree.DefaultQueue, 10), 2)
}

func TestALimitedQueueRunsSoManyAcrossAllWorkersAndTheDeadMakeRoom(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	a, b := k.worker(), k.worker()
	changed, err := k.LimitQueue(t.Context(), tree.DefaultQueue, 3, me())
	require.NoError(t, err)
	require.True(t, changed)
	k.insert(singles(20)...)
	k.insert(grouped("g"), limited("l"))
	require.Len(t, k.claim(a, tree.DefaultQueue, 2), 2)
	claims := k.claim(b, tree.DefaultQueue, 10)
	require.Len(t, claims, 1)
	require.Empty(t, k.claim(a, tree.DefaultQueue, 10))
	k.settle(b, completed(&claims[0]))
	require.Len(t, k.claim(b, tree.DefaultQueue, 10), 1)
	k.expire(a)
	require.Equal(t, 2, k.rescue(10).Retried)
	require.Len(t, k.claim(b, tree.DefaultQueue, 10), 2)
	_, err = k.LimitQueue(t.Context(), tree.DefaultQueue, 5, me())
	require.NoError(t, err)
	require.Len(t, k.claim(b, tree.DefaultQueue, 10), 2)
	changed, err = k.LimitQueue(t.Context(), tree.DefaultQueue, 0, me())
	require.NoError(t, err)
	require.True(t, changed)
	require.Len(t, k.claim(b, tree.DefaultQueue, 100), 16)
	_, err = k.LimitQueue(t.Context(), tree.DefaultQueue, -1, me())
	require.ErrorContains(t, err, "outside 0 to 1000000")
}

func TestALimitOfAKeyHoldsAcrossQueuesChangesAtOnceAndLetsOthersPass(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	require.NoError(t, k.SetLimit(t.Context(), "api", store.Limit{MaxRunning: 2}, me()))
	var nodes []*tree.Node
	for i := range 1_500 {
		nodes = append(nodes, limited("api", tree.Queue([]string{"a", "b"}[i%2])))
	}
	k.insert(append(nodes, tree.New(task{}, tree.Queue("a")), limited("other", tree.Queue("a")))...)
	claims := k.claim(w, "a", 10)
	require.Len(t, claims, 4, "two of the limited key, what has no limit, and what has none set")
	require.Empty(t, k.claim(w, "b", 10))
	require.Positive(t, k.number(`SELECT count(*) FROM coppice.jobs WHERE parked`))
	settled := k.settle(w, completed(&claims[0]))
	require.Equal(t, []string{"a"}, settled.Woken)
	require.Len(t, k.claim(w, "a", 10), 1)
	require.NoError(t, k.SetLimit(t.Context(), "api", store.Limit{MaxRunning: 7}, me()))
	require.Len(t, k.claim(w, "b", 10), 5)
	rows, err := k.Limits(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.Equal(t, 7, rows[0].Running)
	require.Equal(t, 7, rows[0].MaxRunning)
	changed, err := k.DeleteLimit(t.Context(), "api", me())
	require.NoError(t, err)
	require.True(t, changed)
	require.Zero(t, k.number(`SELECT count(*) FROM coppice.jobs WHERE parked`))
	require.Len(t, k.claim(w, "a", 1_000)[:500], 500)
	changed, err = k.DeleteLimit(t.Context(), "api", me())
	require.NoError(t, err)
	require.False(t, changed)
	require.ErrorContains(t, k.SetLimit(t.Context(), "api", store.Limit{}, me()), "to lift one, delete it")
	require.ErrorContains(t, k.SetLimit(t.Context(), "api", store.Limit{Rate: -1}, me()), "outside one a day")
	require.ErrorContains(t, k.SetLimit(t.Context(), "", store.Limit{Rate: 1}, me()), "is empty")
}

func TestARateStartsItsBurstAndThenOneATokenAndTellsWhenTheNextComes(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	require.NoError(t, k.SetLimit(t.Context(), "api", store.Limit{Rate: 0.01, Burst: 3}, me()))
	nodes := make([]*tree.Node, 10)
	for i := range nodes {
		nodes[i] = limited("api")
	}
	k.insert(nodes...)
	got, err := k.Claim(t.Context(), request(w, tree.DefaultQueue, 10))
	require.NoError(t, err)
	require.Len(t, got.Jobs, 3)
	require.True(t, got.Careful)
	require.InDelta(t, 100*time.Second, got.NextDue, float64(20*time.Second))
	for i := range got.Jobs {
		k.settle(w, completed(&got.Jobs[i]))
	}
	require.Empty(t, k.claim(w, tree.DefaultQueue, 10), "what ended gives no token back")
	k.exec(`UPDATE coppice.limits SET refilled_at = refilled_at - interval '200 seconds', retry_at = retry_at - interval '200 seconds'`)
	require.Len(t, k.claim(w, tree.DefaultQueue, 10), 2)
	k.exec(`UPDATE coppice.limits SET refilled_at = refilled_at - interval '1 year', retry_at = retry_at - interval '1 year'`)
	require.Len(t, k.claim(w, tree.DefaultQueue, 10), 3, "the burst is all that is saved up")
}

func TestACarefulClaimsPlansDoNotDependOnStatistics(t *testing.T) {
	t.Parallel()
	analyze := `ANALYZE coppice.jobs, coppice.limits, coppice.marks, coppice.queues, coppice.workers`
	for name, when := range map[string][2]string{
		"never analysed":      {`SELECT 1`, `SELECT 1`},
		"analysed when empty": {analyze, `SELECT 1`},
		"analysed when full":  {`SELECT 1`, analyze},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newCrowd(t)
			w := k.worker()
			k.exec(when[0])
			k.exec(`INSERT INTO coppice.limits (key, max_running, rate, burst, tokens) SELECT 'l' || i, 5, 1, 5, 5 FROM generate_series(0, 1000) i`)
			k.exec(`INSERT INTO coppice.jobs (id, root_id, state, kind, queue, args, group_key, limit_key, parked)
				SELECT i, i, 'ready', 'task', 'crowd', '{}', 'g' || i % 2000, 'l' || i % 1000, i >= 102000 FROM generate_series(100000, 120000) i`)
			k.exec(`SELECT setval('coppice.job_ids', 9000000)`)
			k.exec(`INSERT INTO coppice.marks (queue, group_key, limit_key) SELECT 'crowd', 'g' || i, 'l' || i FROM generate_series(1, 50) i`)
			k.exec(when[1])
			s, r := k.recorded()
			got, err := s.Claim(t.Context(), request(w, "crowd", 20))
			require.NoError(t, err)
			require.Len(t, got.Jobs, 20)
			for i := range got.Jobs {
				_, err = s.Settle(t.Context(), w, []store.Ending{completed(&got.Jobs[i])})
				require.NoError(t, err)
			}
			seen := map[string]bool{}
			for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
				for of, p := range k.explain(r.sent, mode, false) {
					seen[of] = true
					p.walk(func(n *node) {
						switch {
						case strings.HasPrefix(n.Type, "Hash") || strings.HasPrefix(n.Type, "Merge"):
							if strings.Contains(n.Type, "Join") {
								t.Errorf("%s: a %s", of, n.Type)
							}
						case n.Type == "ModifyTable" || n.Type == "LockRows" || n.Table == "" || n.Table == "workers":
						case n.Index == "" || n.Cond == "":
							t.Errorf("%s: a %s of %s by %s without a condition", of, n.Type, n.Table, n.Index)
						}
					})
				}
			}
			for _, of := range []string{"careful", "unpark", "admit", "left", "mark"} {
				require.True(t, seen[of], of)
			}
		})
	}
}

// TestGroupsAndLimitsHoldUnderTenRacingWorkers records every start and end in a table of its own, in the order of claims.
func TestGroupsAndLimitsHoldUnderTenRacingWorkers(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.exec(`CREATE TABLE over (what text NOT NULL);
		CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO over SELECT 'limit' WHERE (SELECT count(*) FROM coppice.jobs WHERE limit_key = 'l' AND state = 'running') > 4;
			INSERT INTO over SELECT 'queue' WHERE (SELECT count(*) FROM coppice.jobs WHERE queue = 'q' AND state = 'running') > 6;
			INSERT INTO over SELECT 'group' FROM coppice.jobs WHERE state = 'running' AND group_key IS NOT NULL GROUP BY group_key HAVING count(*) > 1;
			RETURN NULL;
		END $$;
		CREATE TRIGGER watch AFTER UPDATE ON coppice.jobs FOR EACH STATEMENT EXECUTE FUNCTION watch()`)
	require.NoError(t, k.SetLimit(t.Context(), "l", store.Limit{MaxRunning: 4}, me()))
	_, err := k.LimitQueue(t.Context(), "q", 6, me())
	require.NoError(t, err)
	var nodes []*tree.Node
	for i := range 300 {
		nodes = append(nodes, tree.New(task{}, tree.Queue([]string{"q", "r"}[i%2]), tree.Group(fmt.Sprint(i%7)), tree.Limit("l")),
			tree.New(task{}, tree.Queue("q"), tree.Limit("l")), tree.New(task{}, tree.Queue("r"), tree.Group(fmt.Sprint(i%7))))
	}
	k.insert(nodes...)
	var workers sync.WaitGroup
	var mu sync.Mutex
	last := map[string]tree.ID{} // the newest of each group that ended
	for n := range 10 {
		workers.Go(func() {
			w, random := k.worker(), rand.New(rand.NewPCG(uint64(n), 1))
			idle := 0
			for idle < 200 {
				queue := []string{"q", "r"}[random.IntN(2)]
				got, err := k.Claim(t.Context(), request(w, queue, 1+random.IntN(4)))
				if err != nil {
					t.Error(err)
					return
				}
				if len(got.Jobs) == 0 {
					idle++
					if k.number(`SELECT count(*) FROM coppice.jobs`) == 0 {
						return
					}
					continue
				}
				idle = 0
				for i := range got.Jobs {
					c := &got.Jobs[i]
					e := ending(c, []store.End{store.EndCompleted, store.EndCompleted, store.EndReleased, store.EndRetry}[random.IntN(4)])
					if e.End == store.EndRetry {
						e = failed(c)
					}
					e.Keys = c.Keys
					mu.Lock()
					if e.End == store.EndCompleted && c.Keys.Group != "" {
						if last[c.Keys.Group] > c.ID {
							t.Errorf("group %s: %d ended after %d", c.Keys.Group, c.ID, last[c.Keys.Group])
						}
						last[c.Keys.Group] = c.ID
					}
					mu.Unlock()
					if _, err := k.Settle(t.Context(), w, []store.Ending{e}); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	workers.Wait()
	require.Zero(t, k.number(`SELECT count(*) FROM over`), "limits that did not hold")
	require.Zero(t, k.number(`SELECT count(*) FROM coppice.jobs WHERE state <> 'running' AND attempt < max_attempts`), "jobs that nobody looked at any more")
}
