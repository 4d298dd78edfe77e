package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// grove is one tree in which every way to move has something to move:
//
//	0 root (wait)
//	├─ 1 finalizer (fail)   2 a runs   3 b runs   4 c ready   5 d scheduled, keyed
//	├─ 6 finalizer (wait)   7 e runs   8 f ready and held
//	├─ 9 g runs
//	└─ 10 finalizer (wait), open   11 h runs
type grove struct {
	*kit
	ids    []tree.ID
	worker tree.WorkerID
	claims map[tree.ID]*store.Claim
}

func (k *kit) grove() *grove {
	k.t.Helper()
	k.exec(`TRUNCATE coppice.jobs, coppice.dead_jobs, coppice.history, coppice.results, coppice.job_errors, coppice.workers, coppice.queues, coppice.audit`)
	k.exec(`ALTER SEQUENCE coppice.job_ids RESTART; ALTER SEQUENCE coppice.worker_ids RESTART`)
	running := func() *tree.Node { return tree.New(task{}, tree.Priority(-1)) }
	g := &grove{kit: k, worker: k.worker(), claims: map[tree.ID]*store.Claim{}}
	g.ids = k.insert(wood(
		tree.New(task{}, tree.OnDead(tree.Fail)).Add(running(), running(), wood(), tree.New(task{}, tree.Delay(time.Hour), tree.Dedup("k"))),
		wood(running(), wood()),
		running(),
		open().Add(running()),
	))
	for _, c := range k.claim(g.worker, tree.DefaultQueue, 5) {
		g.claims[c.ID] = &c
	}
	require.Len(k.t, g.claims, 5)
	_, err := k.Hold(k.t.Context(), g.ids[8], store.ScopeJob, me())
	require.NoError(k.t, err)
	return g
}

// A move is one thing that can happen to the grove, done by somebody's store. What it finds changed already it may refuse.
type move func(ctx context.Context, g *grove, s *store.Store) error

func (g *grove) ends(ctx context.Context, s *store.Store, id tree.ID, f func(*store.Claim) store.Ending) error {
	got, err := s.Settle(ctx, g.worker, []store.Ending{f(g.claims[id])})
	if err != nil {
		return err
	}
	for _, root := range got.Closing {
		if _, err := s.Sweep(ctx, root); err != nil {
			return err
		}
	}
	return nil
}

func moves() map[string]move {
	settle := func(n int, f func(*store.Claim) store.Ending) move {
		return func(ctx context.Context, g *grove, s *store.Store) error { return g.ends(ctx, s, g.ids[n], f) }
	}
	return map[string]move{
		"settle complete": settle(2, completed),
		"settle dead":     settle(7, dead),
		"fail fast":       settle(3, dead),
		"stop":            settle(9, func(c *store.Claim) store.Ending { return ending(c, store.EndStopped) }),
		"snooze": settle(2, func(c *store.Claim) store.Ending {
			e := ending(c, store.EndSnoozed)
			e.Delay = time.Hour
			return e
		}),
		"fan out": func(ctx context.Context, g *grove, s *store.Store) error {
			plan, err := tree.NewFanOut(wood(), wood(wood()))
			if err == nil {
				_, err = s.FanOut(ctx, g.worker, g.claims[g.ids[9]].Fence, plan)
			}
			return err
		},
		"settle last": settle(11, completed),
		"add children": func(ctx context.Context, g *grove, s *store.Store) error {
			plan, err := tree.NewFanOut(wood(), wood(wood()))
			if err == nil {
				_, err = s.AddChildren(ctx, g.ids[10], plan)
			}
			return err
		},
		"add keyed children": func(ctx context.Context, g *grove, s *store.Store) error {
			plan, err := tree.NewFanOut(tree.New(task{}, tree.Key("k")))
			if err == nil {
				_, err = s.AddChildren(ctx, g.ids[10], plan)
			}
			return err
		},
		"seal": func(ctx context.Context, g *grove, s *store.Store) error {
			_, err := s.Seal(ctx, g.ids[10])
			return err
		},
		"give up": func(ctx context.Context, g *grove, s *store.Store) error {
			_, err := s.Pool().Exec(ctx, `UPDATE coppice.jobs SET seal_by = now() - interval '1 second' WHERE NOT sealed AND closing IS NULL`)
			if err == nil {
				_, err = s.CloseOverdue(ctx, 10)
			}
			return err
		},
		"cancel branch": func(ctx context.Context, g *grove, s *store.Store) error {
			_, err := s.Cancel(ctx, g.ids[1], store.ScopeBranch, me())
			return err
		},
		"cancel tree": func(ctx context.Context, g *grove, s *store.Store) error {
			_, err := s.Cancel(ctx, g.ids[0], store.ScopeTree, me())
			return err
		},
		"hold": func(ctx context.Context, g *grove, s *store.Store) error {
			_, err := s.Hold(ctx, g.ids[0], store.ScopeTree, me())
			return err
		},
		"release": func(ctx context.Context, g *grove, s *store.Store) error {
			_, err := s.Release(ctx, g.ids[0], store.ScopeTree, me())
			return err
		},
		"replace": func(ctx context.Context, _ *grove, s *store.Store) error {
			plan, err := tree.NewPlan(replacing("new", tree.Priority(3)))
			if err == nil {
				_, err = s.Insert(ctx, plan)
			}
			return err
		},
		"run now": func(ctx context.Context, g *grove, s *store.Store) error {
			_, err := s.RunNow(ctx, g.ids[0], store.ScopeTree, me())
			return err
		},
		"priority": func(ctx context.Context, g *grove, s *store.Store) error {
			_, err := s.SetPriority(ctx, g.ids[0], store.ScopeTree, 7, me())
			return err
		},
		"rescue": func(ctx context.Context, g *grove, s *store.Store) error {
			_, err := s.Pool().Exec(ctx, `UPDATE coppice.workers SET expires_at = now() - interval '1 second'`)
			if err == nil {
				_, err = s.Rescue(ctx, 10)
			}
			return err
		},
	}
}

// outcome closes what is closing and says what became of everything. What is left on rows that have ended, and does not
// matter there, is not told.
func (g *grove) outcome() string {
	g.t.Helper()
	ctx := g.t.Context()
	roots, err := g.ClosingTrees(ctx, 0, 10)
	require.NoError(g.t, err)
	for _, root := range roots {
		_, err := g.Sweep(ctx, root)
		require.NoError(g.t, err)
	}
	report, err := g.Check(ctx, store.CheckOptions{History: true})
	require.NoError(g.t, err)
	require.True(g.t, report.OK(), report.String())
	const counters = `format('%s %s/%s/%s/%s round %s', state, pending, completed, dead, cancelled, round)`
	rows, err := g.db.Pool.Query(ctx, `
		SELECT id, `+counters+` || format(' held %s %s, closing %s, priority %s, attempt %s, due %s', held, hold_below, closing, priority, attempt, run_at > now()) FROM coppice.jobs
		UNION ALL SELECT id, `+counters+` || ' ' || reason FROM coppice.dead_jobs
		UNION ALL SELECT id, `+counters+` FROM coppice.history ORDER BY 1`)
	require.NoError(g.t, err)
	n := 0
	lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (line string, err error) {
		var id int64
		err = row.Scan(&id, &line)
		n++ // not the id: what was tried twice has drawn two
		return fmt.Sprintf("%d: %s", n-1, line), err
	})
	require.NoError(g.t, err)
	return strings.Join(lines, "\n")
}

// refused says whether an error only says that others were first.
func refused(err error) bool {
	var gone *store.NotLiveError
	var has *store.HasChildrenError
	var closed *store.NotOpenError
	return err == nil || errors.As(err, &gone) || errors.As(err, &has) || errors.As(err, &closed)
}

// interruptible makes the transactions of the session "first" wait, once, after their n-th change to jobs, for whoever
// holds the advisory lock: in the middle, with everything locked that they have locked by then.
func (k *kit) interruptible() {
	k.t.Helper()
	k.exec(`CREATE SEQUENCE changes;
		CREATE TABLE interrupt (at bigint NOT NULL);
		CREATE FUNCTION interrupt() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF current_setting('application_name') = 'first' AND nextval('changes') = (SELECT at FROM interrupt) THEN
				PERFORM pg_advisory_xact_lock(42);
			END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER interrupt AFTER INSERT OR UPDATE OR DELETE ON coppice.jobs FOR EACH STATEMENT EXECUTE FUNCTION interrupt()`)
}

// session is a store with a connection of its own, under a name.
func (k *kit) session(name string) *store.Store {
	k.t.Helper()
	config, err := pgxpool.ParseConfig(k.db.URL)
	require.NoError(k.t, err)
	config.ConnConfig.RuntimeParams["application_name"] = name
	pool, err := pgxpool.NewWithConfig(k.t.Context(), config)
	require.NoError(k.t, err)
	k.t.Cleanup(pool.Close)
	s, err := store.New(pool, k.db.Schema)
	require.NoError(k.t, err)
	return s
}

// waits says whether a session waits for a lock, of the kind or of any.
func (k *kit) waits(name, kind string) bool {
	return k.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1
		AND wait_event_type = 'Lock' AND ($2 = '' OR wait_event = $2)`, name, kind) > 0
}

// until waits for a move to end or for what it is about to do; it answers whether it ended.
func (k *kit) until(done <-chan error, reached func() bool) (ended bool, err error) {
	k.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case err = <-done:
			return true, err
		case <-deadline:
			k.t.Fatal("neither ended nor blocked")
		case <-time.After(3 * time.Millisecond):
			if reached() {
				return false, nil
			}
		}
	}
}

// TestEveryPairOfMovesEndsAsOneAfterTheOther stops each move in the middle of a transaction, after its first, second and
// third change, lets another move run into it, and expects that all ends as if one had come after the other.
func TestEveryPairOfMovesEndsAsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	all := moves()
	var known sync.Map // what two moves come to, one after the other: the same on every database
	for first := range all {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			k.interruptible()
			a, b := k.session("first"), k.session("second")
			// The gate is held, and let go, by a connection of its own.
			gate, err := pgx.Connect(t.Context(), k.db.URL)
			require.NoError(t, err)
			defer func() { _ = gate.Close(context.Background()) }()
			for second := range all {
				var serial []string
				for _, pair := range [][2]string{{first, second}, {second, first}} {
					outcome, ok := known.Load(pair)
					if !ok {
						outcome = k.inTurn(all[pair[0]], all[pair[1]])
						known.Store(pair, outcome)
					}
					serial = append(serial, outcome.(string))
				}
				for at := 1; at <= 3; at++ {
					if !k.interleave(gate, at, func(g *grove) (x, y func() error) {
						return func() error { return all[first](t.Context(), g, a) }, func() error { return all[second](t.Context(), g, b) }
					}, func(outcome string) {
						require.Contains(t, serial, outcome, "%s, stopped after change %d, and %s", first, at, second)
					}) {
						break // it makes no more changes
					}
				}
			}
		})
	}
}

// inTurn makes two moves, one after the other.
func (k *kit) inTurn(x, y move) string {
	k.t.Helper()
	g := k.grove()
	for _, m := range []move{x, y} {
		if err := m(k.t.Context(), g, k.Store); !refused(err) {
			require.NoError(k.t, err)
		}
	}
	return g.outcome()
}

// interleave stops x after its change at, starts y, and lets x go on when y has ended or waits. It answers false if x came
// to its end first.
func (k *kit) interleave(gate *pgx.Conn, at int, of func(*grove) (x, y func() error), check func(string)) bool {
	k.t.Helper()
	ctx := k.t.Context()
	g := k.grove()
	k.exec(`ALTER SEQUENCE changes RESTART; TRUNCATE interrupt`)
	k.exec(`INSERT INTO interrupt VALUES ($1)`, at)
	_, err := gate.Exec(ctx, `SELECT pg_advisory_lock(42)`)
	require.NoError(k.t, err)
	x, y := of(g)
	xDone, yDone := make(chan error, 1), make(chan error, 1)
	go func() { xDone <- x() }()
	ended, err := k.until(xDone, func() bool { return k.waits("first", "advisory") })
	if !ended {
		go func() { yDone <- y() }()
		var yEnded bool
		var yErr error
		if yEnded, yErr = k.until(yDone, func() bool { return k.waits("second", "") }); yEnded {
			yDone <- yErr
		}
	}
	_, unlocked := gate.Exec(ctx, `SELECT pg_advisory_unlock(42)`)
	require.NoError(k.t, unlocked)
	if ended {
		require.True(k.t, refused(err), "%v", err)
		return false
	}
	for _, done := range []chan error{xDone, yDone} {
		err := <-done
		require.True(k.t, refused(err), "%v", err)
	}
	check(g.outcome())
	return true
}
