package dlq_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/dlq"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func TestEachFilterNarrowsTheList(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	f.put(row{"id": 1, "round": 1, "dead": 2, "kind": "album", "failed_at": at(3)})
	f.put(row{"id": 2, "root_id": 1, "parent_id": 1, "round": 1, "dead": 1, "failed_at": at(2), "tags": []string{"a"}})
	f.put(row{"id": 3, "root_id": 1, "parent_id": 2, "failed_at": at(1), "reason": "lost", "tags": []string{"b", "a"}})
	f.put(row{"id": 4, "root_id": 1, "parent_id": 1, "failed_at": at(1), "queue": "mail", "kept": true})
	f.put(row{"id": 5, "failed_at": at(1).Add(time.Microsecond), "queue": "mail", "kind": "album"})
	// Orphans: of a finished parent, and of one that nobody knows any more.
	f.exec(`INSERT INTO coppice.history (id, root_id, state, kind, queue, args, round) VALUES (10, 10, 'completed', 'k', 'q', '1', 1)`)
	f.put(row{"id": 11, "root_id": 10, "parent_id": 10, "failed_at": at(9)})
	f.put(row{"id": 21, "root_id": 20, "parent_id": 20, "failed_at": at(9)})
	// Dead children of a parent that lives.
	f.exec(`INSERT INTO coppice.jobs (id, root_id, state, kind, queue, args, round, dead) VALUES (30, 30, 'waiting', 'k', 'q', '1', 1, 1)`)
	f.put(row{"id": 31, "root_id": 30, "parent_id": 30, "failed_at": at(9)})

	for name, c := range map[string]struct {
		filter dlq.Filter
		want   []tree.ID
	}{
		"nothing":               {dlq.Filter{}, []tree.ID{1, 2, 3, 4, 5, 11, 21, 31}},
		"queue":                 {dlq.Filter{Queue: "mail"}, []tree.ID{4, 5}},
		"queue, as it is":       {dlq.Filter{Queue: "Mail"}, nil},
		"kind":                  {dlq.Filter{Kind: "album"}, []tree.ID{1, 5}},
		"queue and kind":        {dlq.Filter{Queue: "mail", Kind: "album"}, []tree.ID{5}},
		"reason":                {dlq.Filter{Reason: tree.ReasonLost}, []tree.ID{3}},
		"tree":                  {dlq.Filter{RootID: 1}, []tree.ID{1, 2, 3, 4}},
		"tree of a live root":   {dlq.Filter{RootID: 30}, []tree.ID{31}},
		"no tree":               {dlq.Filter{RootID: 3}, nil},
		"tree and queue":        {dlq.Filter{RootID: 1, Queue: "mail"}, []tree.ID{4}},
		"dead parent":           {dlq.Filter{ParentID: 1}, []tree.ID{2, 4}},
		"parent below":          {dlq.Filter{ParentID: 2}, []tree.ID{3}},
		"finished parent":       {dlq.Filter{ParentID: 10}, []tree.ID{11}},
		"forgotten parent":      {dlq.Filter{ParentID: 20}, []tree.ID{21}},
		"live parent":           {dlq.Filter{ParentID: 30}, []tree.ID{31}},
		"parent in a tree":      {dlq.Filter{RootID: 1, ParentID: 2}, []tree.ID{3}},
		"parent of elsewhere":   {dlq.Filter{RootID: 30, ParentID: 2}, nil},
		"roots":                 {dlq.Filter{RootsOnly: true}, []tree.ID{1, 5}},
		"root of a tree":        {dlq.Filter{RootsOnly: true, RootID: 1}, []tree.ID{1}},
		"one tag":               {dlq.Filter{Tags: []string{"a"}}, []tree.ID{2, 3}},
		"all tags":              {dlq.Filter{Tags: []string{"a", "b"}}, []tree.ID{3}},
		"a tag that none has":   {dlq.Filter{Tags: []string{"a", "%"}}, nil},
		"from a time on":        {dlq.Filter{FailedAfter: at(3)}, []tree.ID{1, 11, 21, 31}},
		"before a time":         {dlq.Filter{FailedBefore: at(2)}, []tree.ID{3, 4, 5}},
		"between times":         {dlq.Filter{FailedAfter: at(1), FailedBefore: at(1).Add(time.Microsecond)}, []tree.ID{3, 4}},
		"between no times":      {dlq.Filter{FailedAfter: at(2), FailedBefore: at(1)}, nil},
		"of a queue, in time":   {dlq.Filter{Queue: "mail", FailedAfter: at(1), FailedBefore: at(1).Add(1000)}, []tree.ID{4}},
		"of a tree, in time":    {dlq.Filter{RootID: 1, FailedAfter: at(2), FailedBefore: at(3)}, []tree.ID{2}},
		"kept":                  {dlq.Filter{Kept: new(true)}, []tree.ID{4}},
		"not kept, of a queue":  {dlq.Filter{Kept: new(false), Queue: "mail"}, []tree.ID{5}},
		"words that are no SQL": {dlq.Filter{Queue: "q' OR true --", Kind: `"; --`, Tags: []string{`{"}`, `\`}}, nil},
	} {
		require.Equal(t, c.want, f.matching(c.filter), name)
		groups, more, err := f.Groups(t.Context(), c.filter)
		require.NoError(t, err)
		require.False(t, more)
		var count int64
		for _, g := range groups {
			count += g.Count
		}
		require.EqualValues(t, len(c.want), count, "the groups have as many: %s", name)
	}
}

func TestTextIsFoundAsItIsInAnyCase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	texts := []string{
		1: `disk 100% full`, 2: `disk 100 full`, 3: `a_b`, 4: `axb`, 5: `C:\tmp\new`, 6: `C:tmp`, 7: `Größe ÄÖÜ: ЖЁЛУДЬ ΣΊΣΥΦΟΣ`,
		8: "line one\nline two\ttab", 9: `it's ''quoted'' "so" -- ; DROP TABLE x; $1 ? ?? {s} :name`, 10: `[a-z]+(b|c)*.^$?{2}`,
		11: `***:x (?i)y \d \m \y &`, 12: "NUL \u2400 here, bad \uFFFD byte", 13: `日本語のエラー 💥 e` + "\u0301", 14: `abab`,
	}
	for id, text := range texts {
		if id > 0 {
			f.put(row{"id": id, "error": text})
		}
	}
	f.put(row{"id": 15}) // no error at all
	for text, want := range map[string][]tree.ID{
		"100%": {1}, "%": {1}, "_": {3}, "A_B": {3}, `\`: {5, 11}, `c:\TMP\N`: {5}, `\\`: nil, `\t`: {5}, `\d`: {11}, "\n": {8}, "\t": {8},
		"ONE\nLine": {8}, "größe äöü": {7}, "GRÖSSE": nil, "жёлудь": {7}, "σίσυφος": {7}, "ÄÖÜ": {7}, "'": {9}, "''QUOTED''": {9},
		`"So"`: {9}, "$1": {9}, "??": {9}, "?": {9, 10, 11}, "{S}": {9}, "; drop table X;": {9}, "[A-Z]+(b|c)*.^$?{2}": {10},
		"***:X": {11}, "(?i)": {11}, `\m`: {11}, `\Y &`: {11}, ".": {10}, "^": {10}, "$": {9, 10}, "|": {10}, "nul \x00": {12},
		"BAD \xff BYTE": {12}, "日本語": {13}, "💥": {13}, "E\u0301": {13}, "é": nil, "ABAB": {14}, "aba": {14}, "DISK": {1, 2}, "  ": nil,
		"\u212A": {1, 2}, // the sign of Kelvin is a K
	} {
		require.Equal(t, want, f.matching(dlq.Filter{Text: text}), "%q", text)
	}
}

func TestLongTextIsFoundToo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	long := strings.Repeat("kſß", store.MaxFilterText/5)
	f.put(row{"id": 1, "error": strings.Repeat("k", 1000) + strings.ToUpper(long) + strings.Repeat("x", 7000)})
	require.Equal(t, []tree.ID{1}, f.matching(dlq.Filter{Text: strings.Repeat("K", store.MaxFilterText)}))
	require.Equal(t, []tree.ID{1}, f.matching(dlq.Filter{Text: strings.Repeat("kS", 1) + "ß"}))
	require.Empty(t, f.matching(dlq.Filter{Text: strings.Repeat("k", store.MaxFilterText-1) + "y"}))
}

func TestAFilterThatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for want, filter := range map[string]dlq.Filter{
		`"broken" is no reason; the reasons are fatal, attempts_spent, age_spent, undecodable, bad_result, bad_fan_out, lost`: {Reason: "broken"},
		`"FATAL" is no reason`:          {Reason: "FATAL"},
		"the text has 513 bytes":        {Text: strings.Repeat("x", 513)},
		`"a\x00" has NUL`:               {Queue: "a\x00"},
		`"\xff" has NUL or bytes that`:  {Kind: "\xff"},
		`"b\x00" has NUL or bytes that`: {Tags: []string{"a", "b\x00"}},
		"the year 10000 is not within":  {FailedAfter: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"the year -4800 is not within":  {FailedBefore: time.Date(-4800, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		_, _, err := f.List(t.Context(), filter, dlq.Page{})
		require.ErrorIs(t, err, dlq.ErrBadFilter)
		require.ErrorContains(t, err, "list dead letters: bad filter: "+want)
		_, _, err = f.Groups(t.Context(), filter)
		require.ErrorIs(t, err, dlq.ErrBadFilter)
		require.ErrorContains(t, err, "group dead letters: bad filter: "+want)
	}
}
