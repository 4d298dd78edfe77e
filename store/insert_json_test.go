package store_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/coppicehq/coppice/tree"
)

// TestTheJSONCheckAgreesWithPostgreSQL draws strings of escapes: the check refuses exactly those that PostgreSQL
// cannot turn into text.
func TestTheJSONCheckAgreesWithPostgreSQL(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	pieces := []string{
		`\u0000`, `\ud83d`, `\ude00`, `\uDFFF`, `\uD800`, `\udbff\udfff`, `\\`, `\\u0000`, `\"`, `\/`, `\n`, `a`, `u0000`, `木`, `\ufffd`,
		`\u0001`, "\u2028", `\uffff`, `{`, `\u00E4`, "\x7f",
	}
	var accepted, refused int
	rapid.Check(t, func(rt *rapid.T) {
		text := `"` + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(rt, "pieces"), "") + `"`
		require.True(rt, json.Valid([]byte(text)))
		var same bool
		err := in.db.Pool.QueryRow(t.Context(), `SELECT $1::text::json::text = $1::text AND $1::text::json #>> '{}' IS NOT NULL`, text).Scan(&same)
		if tree.CheckJSON([]byte(text), tree.MaxArgsBytes) == nil {
			accepted++
			require.NoError(rt, err, text)
			require.True(rt, same)
			p := planOf(t, tree.New(raw(text)))
			out, err := in.Insert(t.Context(), p)
			require.NoError(rt, err)
			row, err := in.Job(t.Context(), out[0].ID)
			require.NoError(rt, err)
			require.Equal(rt, string(p.Specs[0].Args), string(row.Args))
		} else {
			refused++
			require.Error(rt, err, text)
		}
	})
	t.Logf("%d accepted, %d refused", accepted, refused)
	require.Positive(t, min(accepted, refused))
}

func TestArgsOfTheLargestSizeAndDepthAreStored(t *testing.T) {
	t.Parallel()
	in := newIntake(t)
	deep := strings.Repeat(`{"a":[`, tree.MaxJSONDepth/2) + strings.Repeat("]}", tree.MaxJSONDepth/2)
	large := `"` + strings.Repeat("x", tree.MaxArgsBytes-2) + `"`
	for _, text := range []string{deep, large} {
		row, err := in.Job(t.Context(), in.insert(tree.New(raw(text)))[0].ID)
		require.NoError(t, err)
		require.Equal(t, text, string(row.Args))
	}
}
