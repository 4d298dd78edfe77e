package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	sq "github.com/Masterminds/squirrel"

	"github.com/coppicehq/coppice/tree"
)

// ErrBadFilter is in the chain of the error for a [DeadFilter] that cannot mean anything; the text says why.
var ErrBadFilter = errors.New("bad filter")

// MaxFilterText is the longest text, in bytes of UTF-8, that a filter looks for in errors.
const MaxFilterText = 512

// DeadFilter says which dead letters are meant: those that match every field that is set. Its zero value
// means all of them.
type DeadFilter struct {
	Queue    string      // "": any
	Kind     string      // "": any
	Reason   tree.Reason // one of tree.Reasons; "": any
	RootID   tree.ID     // the root's id, wherever the root is; zero: any
	ParentID tree.ID     // children of this job, wherever it is; zero: any

	// RootsOnly leaves out children. A job that never had children is a root too.
	RootsOnly bool
	// Text is looked for in the error, in any case: letter by letter, as Unicode folds single letters and
	// whatever the database's locale. No character has a meaning of its own. At most MaxFilterText; "": any.
	Text string
	// Tags must all be there, in any order, and others may be. Empty: any.
	Tags []string

	// FailedAfter and FailedBefore bound when the job died: at FailedAfter or later, and before FailedBefore. They
	// are moments that somebody names, of the years 1 to 9999; zero: no bound.
	FailedAfter, FailedBefore time.Time

	// Kept asks for those that are held against retention, or for those that are not. nil: either.
	Kept *bool
}

// check refuses what no dead letter can match because it is a mistake, and what PostgreSQL would not take.
func (f *DeadFilter) check() error {
	if f.Reason != "" && !slices.Contains(tree.Reasons(), f.Reason) {
		var known []string
		for _, r := range tree.Reasons() {
			known = append(known, string(r))
		}
		return fmt.Errorf("%w: %q is no reason; the reasons are %s",
			ErrBadFilter, tree.Clip(string(f.Reason), tree.MaxKindBytes), strings.Join(known, ", "))
	}
	if len(f.Text) > MaxFilterText {
		return fmt.Errorf("%w: the text has %d bytes; at most %d are looked for", ErrBadFilter, len(f.Text), MaxFilterText)
	}
	for _, word := range append([]string{f.Queue, f.Kind}, f.Tags...) {
		if word != tree.CleanText(word, len(word)) {
			return fmt.Errorf("%w: %q has NUL or bytes that are not UTF-8, which no queue, kind or tag has",
				ErrBadFilter, tree.Clip(word, tree.MaxKindBytes))
		}
	}
	for _, at := range []time.Time{f.FailedAfter, f.FailedBefore} {
		if year := at.UTC().Year(); year < 1 || year > 9999 {
			return fmt.Errorf("%w: the year %d is not within 1 to 9999", ErrBadFilter, year)
		}
	}
	return nil
}

// locate fills in the tree of the filter's parent, because the index of dead children begins with the tree. A
// parent that no table knows any more leaves it zero, and its orphans are then found without that index.
func (s *Store) locate(ctx context.Context, f *DeadFilter) error {
	if f.ParentID == 0 || f.RootID != 0 {
		return nil
	}
	parent, err := s.Job(ctx, f.ParentID)
	if err == nil {
		f.RootID = parent.RootID
	}
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// deadFrom selects columns of d, the dead letters that match all of the filter but its queue and its times:
// those are left to whoever needs them in the order of an index.
//
// OFFSET 0 keeps a tree's members together: without it the planner may walk through everyone's dead
// letters, in the order that the list wants, to find them.
func (f *DeadFilter) deadFrom(columns ...string) sq.SelectBuilder {
	from := sq.Select(columns...).PlaceholderFormat(sq.Dollar)
	if f.RootID != 0 {
		members := sq.Select("*").From("{s}.dead_jobs").Where(sq.Eq{"root_id": int64(f.RootID)}).Offset(0)
		if f.ParentID != 0 {
			members = members.Where(sq.Eq{"parent_id": int64(f.ParentID)})
		}
		from = from.FromSelect(members, "d")
	} else {
		from = from.From("{s}.dead_jobs d")
		if f.ParentID != 0 {
			from = from.Where(sq.Eq{"d.parent_id": int64(f.ParentID)})
		}
	}
	if f.Kind != "" {
		from = from.Where(sq.Eq{"d.kind": f.Kind})
	}
	if f.Reason != "" {
		from = from.Where(sq.Eq{"d.reason": string(f.Reason)})
	}
	if f.RootsOnly {
		from = from.Where("d.parent_id IS NULL")
	}
	if f.Text != "" {
		from = from.Where("d.error ~ ?", anyCase(f.Text))
	}
	if len(f.Tags) > 0 {
		from = from.Where("d.tags @> ?", f.Tags)
	}
	if f.Kept != nil {
		from = from.Where(sq.Eq{"d.kept": *f.Kept})
	}
	return from
}

// anyCase writes a regular expression of PostgreSQL's that matches the text literally and in any case. The
// cases are spelled out, because what ILIKE, lower() and ~* know of letters depends on the database's locale:
// in the C locale, of ASCII only. The text is cleaned as the errors were.
func anyCase(text string) string {
	var out strings.Builder
	for _, r := range tree.CleanText(text, MaxFilterText) {
		other := unicode.SimpleFold(r)
		switch {
		case other != r:
			out.WriteByte('[')
			out.WriteRune(r)
			for ; other != r; other = unicode.SimpleFold(other) {
				out.WriteRune(other)
			}
			out.WriteByte(']')
		case strings.ContainsRune(`\.^$*+?()[]{}|`, r):
			out.WriteByte('\\')
			out.WriteRune(r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}
