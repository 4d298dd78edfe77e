package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// wording draws words: of a tame forest such as can be stored, of a wild one any.
type wording struct {
	*rapid.T
	wild bool
}

func (w wording) text(label string) string {
	if w.wild {
		odd := rapid.SampledFrom([]string{"NULL", " ", "", "\x00", "\xff", "\uFFFD", "\v", "a\u2028b"})
		return rapid.OneOf(odd, rapid.StringN(0, 20, 60)).Draw(w.T, label)
	}
	odd := rapid.SampledFrom([]string{"NULL", `"\{},'`, "\uFFFD", "a\vb", " a\u2028b ", "{", `\`, "{}", `""`, "木"})
	return rapid.OneOf(odd, rapid.StringMatching(`[^\x00\s][^\x00]{0,20}`)).Draw(w.T, label)
}

// drawForest draws a forest in which some nodes may not be acceptable.
func drawForest(t *rapid.T) []*tree.Node {
	w := wording{t, rapid.IntRange(0, 3).Draw(t, "wild") == 0}
	var all, roots []*tree.Node
	for i := range rapid.IntRange(1, 30).Draw(t, "nodes") {
		var options []tree.Option
		if rapid.Bool().Draw(t, "tags") {
			options = append(options, tree.Tags(w.text("tag"), w.text("tag")))
		}
		if rapid.Bool().Draw(t, "meta") {
			options = append(options, tree.Meta(w.text("k"), w.text("v")))
		}
		if rapid.IntRange(0, 3).Draw(t, "queue") == 0 {
			options = append(options, tree.Queue(w.text("name")))
		}
		if rapid.IntRange(0, 3).Draw(t, "dedup") == 0 {
			options = append(options, tree.Dedup(fmt.Sprint(w.text("key"), i)))
		}
		options = append(options, tree.Delay(time.Duration(rapid.Int64Range(0, int64(tree.MaxDuration)).Draw(t, "delay"))),
			tree.Priority(rapid.IntRange(-32_768, 32_767).Draw(t, "priority")),
			tree.WithBackoff(tree.Backoff{
				Base: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "base")), Factor: rapid.Float64Range(1, 100).Draw(t, "factor"),
				Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
			}))
		n := tree.New(sprig{w.text("args")}, options...)
		if len(all) > 0 && rapid.IntRange(0, 4).Draw(t, "deeper") > 0 {
			rapid.SampledFrom(all).Draw(t, "parent").Add(n)
		} else {
			roots = append(roots, n)
		}
		all = append(all, n)
	}
	return roots
}

// TestWhateverAPlanAcceptsIsInsertedAndReadBack draws forests, and inserts each accepted one in a transaction of its
// own or of the caller's.
func TestWhateverAPlanAcceptsIsInsertedAndReadBack(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	accepted := 0
	rapid.Check(t, func(rt *rapid.T) {
		p, err := tree.NewPlan(drawForest(rt)...)
		if err != nil {
			require.ErrorIs(rt, err, tree.ErrInvalid)
			return
		}
		accepted++
		var out []store.Inserted
		if rapid.Bool().Draw(rt, "in a transaction") {
			err = in.inTx(pgx.TxOptions{}, func(tx pgx.Tx) error {
				out, err = in.InsertTx(t.Context(), store.PgxTx(tx), p)
				return err
			})
		} else {
			out, err = in.Insert(t.Context(), p)
		}
		require.NoError(rt, err)
		for i, s := range p.Specs {
			row, err := in.Job(t.Context(), out[i].ID)
			require.NoError(rt, err)
			require.Equal(rt, string(s.Args), string(row.Args))
			require.Equal(rt, []any{s.Queue, s.Priority, s.DedupKey}, []any{row.Queue, row.Priority, row.DedupKey})
			require.Equal(rt, s.Tags, row.Tags)
			require.Equal(rt, out[s.Root].ID, row.RootID)
			if s.Parent >= 0 {
				require.Equal(rt, out[s.Parent].ID, row.ParentID)
				require.Less(rt, row.ParentID, row.ID)
			}
		}
		in.exec(`TRUNCATE coppice.jobs`)
	})
	t.Logf("%d forests were accepted", accepted)
	require.Positive(t, accepted)
}
