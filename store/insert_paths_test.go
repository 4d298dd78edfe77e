package store_test

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// path is one way into the database.
type path struct {
	name   string
	insert func(*tree.Plan) ([]store.Inserted, error)
}

func (in *intake) paths(modes ...pgx.QueryExecMode) []path {
	ctx := in.t.Context()
	var all []path
	for _, mode := range modes {
		s := in.over(func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
		all = append(all, path{mode.String() + " own", func(p *tree.Plan) ([]store.Inserted, error) { return s.Insert(ctx, p) }},
			path{mode.String() + " pgx.Tx", func(p *tree.Plan) (out []store.Inserted, err error) {
				return out, pgx.BeginFunc(ctx, s.Pool(), func(tx pgx.Tx) (err error) {
					out, err = s.InsertTx(ctx, store.PgxTx(tx), p)
					return err
				})
			}})
	}
	for _, driver := range []string{"pgx", "postgres"} {
		db := in.open(driver)
		all = append(all, path{driver + " sql.Tx", func(p *tree.Plan) (out []store.Inserted, err error) {
			return out, inSQL(ctx, db, func(tx *sql.Tx) (err error) {
				out, err = in.InsertTx(ctx, store.SQLTx(tx), p)
				return err
			})
		}})
	}
	return all
}

// TestEveryPathStoresTheSameRows compares all columns, ids and times aside. 399, 400 and 5,001 are on either side of
// where plans are streamed and where arrays are cut.
func TestEveryPathStoresTheSameRows(t *testing.T) {
	t.Parallel()
	for _, keys := range []bool{false, true} {
		for _, n := range []int{1, 100, 399, 400, 5_001} {
			in := newIntake(t)
			p := planOf(t, sampler(n, keys)...)
			// A pooler between makes pgx use one of the other modes. They differ in how arrays travel, which
			// the short plans show.
			modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement}
			if n <= 100 {
				modes = append(modes, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
					pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol)
			}
			var want []string
			for _, path := range in.paths(modes...) {
				in.exec(`TRUNCATE coppice.jobs`)
				out, err := path.insert(p)
				require.NoError(t, err, "%d by %s", n, path.name)
				require.Len(t, out, n)
				// Plain comparisons: a hundred thousand assertions take longer than the inserts.
				for i, one := range out {
					parent := p.Specs[i].Parent
					if one.Duplicate || (parent >= 0 && out[parent].ID >= one.ID) {
						t.Fatalf("node %d of %d by %s: %+v, parent %d", i, n, path.name, one, parent)
					}
				}
				got := in.rows()
				require.Len(t, got, n)
				if want == nil {
					want = got
					continue
				}
				if i := firstDifference(want, got); i >= 0 {
					require.Equal(t, want[i], got[i], "row %d of %d by %s", i, n, path.name)
				}
			}
		}
	}
}

// firstDifference is the place of the first difference of two slices of one length; -1: they are equal.
func firstDifference(a, b []string) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}
