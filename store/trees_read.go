package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	sq "github.com/Masterminds/squirrel"

	"github.com/coppicehq/coppice/tree"
)

// TreeFilter says which trees to list. Its zero value: those whose root is live or dead.
type TreeFilter struct {
	StalledOnly bool    // only those that a dead child holds up somewhere; Finished has no meaning then
	Finished    bool    // also those whose root is in the history
	Queue       string  // the root's; "": any
	Kind        string  // the root's; "": any
	After       tree.ID // the next of the page before; zero: from the newest
	Limit       int     // 1 to MaxPage; zero: DefaultPage
}

// TreeRow is one tree in a list, seen from its root.
type TreeRow struct {
	Place     Place         `db:"place"`
	RootID    tree.ID       `db:"id"`
	Kind      string        `db:"kind"`
	Queue     string        `db:"queue"`
	State     tree.State    `db:"state"`
	Held      bool          `db:"held"`
	Round     int           `db:"round"`
	Sealed    bool          `db:"sealed"`  // no more children will come
	Closing   string        `db:"closing"` // what becomes of it when its last child settles; "": it is not closing
	CreatedAt time.Time     `db:"created_at"`
	Age       time.Duration `db:"age"`      // since CreatedAt
	EndedAt   *time.Time    `db:"ended_at"` // when the root died or finished; nil: it is live
	Reason    tree.Reason   `db:"reason"`   // why the root is dead
	Counters                // of the root's own children

	StalledAt  *time.Time    `db:"stalled_at"` // since when a dead child holds up the root or a finalizer below it
	StalledFor time.Duration `db:"stalled_for"`
	// StalledBy is the oldest dead child of that finalizer, and StalledReason why it is dead; zero: nothing is stalled.
	StalledBy     tree.ID     `db:"stalled_by"`
	StalledReason tree.Reason `db:"stalled_reason"`
}

// treeColumns are the root's columns that the three tables share.
const treeColumns = `r.id, r.kind, r.queue, r.state, r.held, r.round, r.sealed, coalesce(r.closing, '') AS closing,
	r.created_at, r.pending, r.completed, r.dead, r.cancelled, r.removed`

// stalled says of a live row that it is held up now: stalled_at stays when what held it up is gone.
const stalled = `state = 'waiting' AND stalled_at IS NOT NULL`

// Trees lists trees, the newest first, and returns the After of the next page; zero when there is none. A
// job that never had children is no tree, and dead children whose root has left the dead-letter queue
// are only found there.
//
// Each table gives at most a page, in the order of its index: jobs_roots, dead_jobs_roots, and history_roots
// of every partition; a stalled tree is found by jobs_stalled, its root by jobs_pkey, and what stalls it by dead_jobs_tree. A filter by queue
// or kind that few trees match reads on past the others. No locks.
func (s *Store) Trees(ctx context.Context, f TreeFilter) ([]TreeRow, tree.ID, error) {
	limit := pageSize(f.Limit)
	text, args, err := treesSQL(f, limit+1)
	if err != nil {
		return nil, 0, fmt.Errorf("list trees: %w", err)
	}
	out, err := readRows[TreeRow](ctx, s, text, args...)
	if err != nil {
		return nil, 0, fmt.Errorf("list trees: %w", err)
	}
	out, next := page(out, limit, func(r TreeRow) tree.ID { return r.RootID })
	return out, next, nil
}

func treesSQL(f TreeFilter, limit int) (string, []any, error) {
	var parts []sq.SelectBuilder
	if f.StalledOnly {
		parts = append(parts, stalledTrees(f))
	} else {
		parts = append(parts, treesIn(PlaceLive, "{s}.jobs r", "NULL::timestamptz", "''"),
			treesIn(PlaceDead, "{s}.dead_jobs r", "r.failed_at", "r.reason"))
		if f.Finished {
			parts = append(parts, treesIn(PlaceHistory, "{s}.history r", "r.finished_at", "''"))
		}
	}
	var union []string
	var args []any
	for _, p := range parts {
		text, a, err := p.Where(filterTrees(f)).OrderBy("r.id DESC").Limit(uint64(limit)).ToSql()
		if err != nil {
			return "", nil, err
		}
		union = append(union, "("+text+")")
		args = append(args, a...)
	}
	// Only the rows of the page look up whether they are stalled, and by what.
	text, err := sq.Dollar.ReplacePlaceholders(`SELECT p.*, ` + nanos("now() - p.created_at") + ` AS age,
		m.stalled_at, coalesce(` + nanos("now() - m.stalled_at") + `, 0) AS stalled_for,
		coalesce(m.by, 0) AS stalled_by, coalesce(m.why, '') AS stalled_reason
	FROM (SELECT * FROM (` + strings.Join(union, " UNION ALL ") + `) u ORDER BY id DESC LIMIT ?) p
	LEFT JOIN LATERAL (SELECT f.stalled_at, d.id AS by, d.reason AS why
		FROM (SELECT id, root_id, stalled_at FROM {s}.jobs WHERE root_id = p.id AND ` + stalled + ` ORDER BY root_id, stalled_at LIMIT 1) f
		LEFT JOIN LATERAL (SELECT id, reason FROM {s}.dead_jobs WHERE root_id = f.root_id AND parent_id = f.id
			ORDER BY root_id, parent_id, id LIMIT 1) d ON true) m ON true
	ORDER BY p.id DESC`)
	return text, append(args, limit), err
}

// treesIn selects the roots of trees in one table.
func treesIn(place Place, table, endedAt, reason string) sq.SelectBuilder {
	return sq.Select("'"+string(place)+"' AS place").Columns(treeColumns).
		Columns(endedAt+" AS ended_at", reason+" AS reason").From(table).
		Where("r.parent_id IS NULL AND r.round > 0")
}

// stalledTrees selects the roots of trees that have a stalled finalizer. Such a tree has a live root: what
// is stalled keeps every ancestor waiting.
func stalledTrees(f TreeFilter) sq.SelectBuilder {
	roots := sq.Select("DISTINCT root_id").From("{s}.jobs").Where(stalled).OrderBy("root_id DESC")
	if f.After != 0 {
		roots = roots.Where(sq.Lt{"root_id": int64(f.After)})
	}
	return sq.Select("'live' AS place").Columns(treeColumns).
		Columns("NULL::timestamptz AS ended_at", "'' AS reason").
		FromSelect(roots, "st").Join("{s}.jobs r ON r.id = st.root_id")
}

func filterTrees(f TreeFilter) sq.And {
	where := sq.And{}
	if f.After != 0 {
		where = append(where, sq.Lt{"r.id": int64(f.After)})
	}
	if f.Queue != "" {
		where = append(where, sq.Eq{"r.queue": f.Queue})
	}
	if f.Kind != "" {
		where = append(where, sq.Eq{"r.kind": f.Kind})
	}
	return where
}
