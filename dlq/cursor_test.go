package dlq_test

import (
	"encoding/base64"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/dlq"
)

func TestACursorThatNoListReturnedIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, cursor := range []string{
		"x", "0", "bmV3", "'; DROP TABLE coppice.dead_jobs --", strings.Repeat("A", 1<<20), "\x00\xff",
		encode("newest 1 "), encode("newest 1 0"), encode("newest 1 -1"), encode("newest 1 1 1"), encode("newest  1 1"),
		encode("newest 01 1"), encode("newest +1 1"), encode("latest 1 1"), encode("newest 1 9223372036854775808"),
		encode("newest 9223372036854775807 1"), encode("newest -9223372036854775808 1"), encode("newest 1 1") + "=",
		encode("newest 1 1") + "\n",
	} {
		_, _, err := f.List(t.Context(), dlq.Filter{}, dlq.Page{Cursor: cursor})
		require.ErrorIs(t, err, dlq.ErrBadCursor, "%.40q", cursor)
		require.ErrorContains(t, err, "is not one that a list returned")
		require.Less(t, len(err.Error()), 400)
	}
	_, _, err := f.List(t.Context(), dlq.Filter{}, dlq.Page{Cursor: encode("newest 253402300799999999 1")})
	require.NoError(t, err, "the end of the year 9999")
	_, _, err = f.List(t.Context(), dlq.Filter{}, dlq.Page{Cursor: encode("newest 1 9223372036854775807")})
	require.NoError(t, err, "%d", math.MaxInt64)
}

func TestACursorOfTheOtherOrderIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(row{"id": 1})
	f.put(row{"id": 2})
	_, next, err := f.List(t.Context(), dlq.Filter{}, dlq.Page{Limit: 1, OldestFirst: true})
	require.NoError(t, err)
	_, _, err = f.List(t.Context(), dlq.Filter{}, dlq.Page{Cursor: next})
	require.ErrorIs(t, err, dlq.ErrBadCursor)
	require.ErrorContains(t, err, "the other order")
}
