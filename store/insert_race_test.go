package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// atOnce runs n functions that start together, and returns what each answered.
func atOnce[T any](n int, f func(i int) (T, error)) ([]T, error) {
	start := make(chan struct{})
	out := make([]T, n)
	var group errgroup.Group
	for i := range n {
		group.Go(func() (err error) {
			<-start
			out[i], err = f(i)
			return err
		})
	}
	close(start)
	return out, group.Wait()
}

func TestFiftyInsertsOfOneKeyMakeOneJobAndAllGetItsID(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	const callers = 50
	s := in.over(func(c *pgxpool.Config) { c.MaxConns = callers })
	for round := range 5 {
		p := planOf(t, keyed(fmt.Sprint(round)))
		out, err := atOnce(callers, func(int) ([]store.Inserted, error) { return s.Insert(t.Context(), p) })
		require.NoError(t, err)
		made := 0
		for _, one := range out {
			require.Equal(t, out[0][0].ID, one[0].ID)
			if !one[0].Duplicate {
				made++
			}
		}
		require.Equal(t, 1, made)
		require.Equal(t, round+1, in.count())
	}
}

// TestInsertsThatRaceTheHoldersEndAllSucceed ends the holder while others insert its key: each is answered with a job
// that was live meanwhile, and at most one is at the end.
func TestInsertsThatRaceTheHoldersEndAllSucceed(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	const callers = 6
	times := rounds(80)
	s := in.over(func(c *pgxpool.Config) { c.MaxConns = callers + 1 })
	single, whole := planOf(t, keyed("a")), planOf(t, tree.New(sprig{}).Add(keyed("a"), tree.New(sprig{})))
	taken := 0
	for range times {
		in.exec(`TRUNCATE coppice.jobs`)
		holder := in.insert(keyed("a"))[0].ID
		out, err := atOnce(callers+1, func(i int) (store.Inserted, error) {
			switch i {
			case callers:
				_, err := s.Pool().Exec(context.Background(), `DELETE FROM coppice.jobs WHERE id = $1`, int64(holder))
				return store.Inserted{ID: holder, Duplicate: true}, err
			case 0:
				out, err := s.Insert(context.Background(), whole)
				var held *store.DuplicateError
				if errors.As(err, &held) {
					return store.Inserted{ID: held.ID, Duplicate: true}, nil
				}
				if err != nil {
					return store.Inserted{}, err
				}
				return store.Inserted{ID: out[1].ID}, nil
			}
			out, err := s.Insert(context.Background(), single)
			if err != nil {
				return store.Inserted{}, err
			}
			return out[0], nil
		})
		require.NoError(t, err)
		made := slices.DeleteFunc(slices.Clone(out), func(one store.Inserted) bool { return one.Duplicate })
		require.LessOrEqual(t, len(made), 1, "one job takes the key over")
		for _, one := range out {
			if one.ID != holder {
				require.Equal(t, made[0].ID, one.ID)
			}
		}
		taken += len(made)
	}
	t.Logf("the key was taken over in %d of %d rounds", taken, times)
	require.Positive(t, taken)
}

// TestInsertsOfTheSameKeysInOppositeOrdersDoNotDeadlock also cuts them into several statements.
func TestInsertsOfTheSameKeysInOppositeOrdersDoNotDeadlock(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	for _, c := range []struct{ keys, rounds int }{{50, 40}, {5_200, 2}} {
		var up []*tree.Node
		for i := range c.keys {
			up = append(up, keyed(fmt.Sprint(i)))
		}
		down := slices.Clone(up)
		slices.Reverse(down)
		plans := []*tree.Plan{planOf(t, up...), planOf(t, down...)}
		for range c.rounds {
			in.exec(`TRUNCATE coppice.jobs`)
			_, err := atOnce(4, func(i int) (struct{}, error) {
				return struct{}{}, in.inTx(pgx.TxOptions{}, func(tx pgx.Tx) error {
					_, err := in.InsertTx(context.Background(), store.PgxTx(tx), plans[i%2])
					return err
				})
			})
			require.NoError(t, err)
			require.Equal(t, c.keys, in.count())
		}
	}
}

// TestInsertsWorkWhateverTheDatabasesDefaultIsolation races every kind of insert where transactions are of one
// snapshot unless they say otherwise.
func TestInsertsWorkWhateverTheDatabasesDefaultIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		in := newIntake(t)
		s := in.over(func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level })
		plans := []*tree.Plan{
			planOf(t, tree.New(sprig{})), planOf(t, tree.New(sprig{}).Add(tree.New(sprig{}))), planOf(t, sampler(450, false)...),
			planOf(t, keyed("a"), keyed("b")),
		}
		for range 10 {
			_, err := atOnce(8, func(i int) ([]store.Inserted, error) { return s.Insert(context.Background(), plans[i%len(plans)]) })
			require.NoError(t, err, level)
		}
		require.Equal(t, 10*2*(1+2+450)+2, in.count())
	}
}
