package dlq

import (
	"context"

	"github.com/coppicehq/coppice/store"
)

// Page sizes of [Letters.List].
const (
	DefaultPage = 50            // entries, where the caller says zero or less
	MaxPage     = store.MaxPage // entries; more is cut to this
)

// ErrBadFilter is in the chain of the error for a [Filter] that was refused. The text says why.
var ErrBadFilter = store.ErrBadFilter

// Filter says which dead letters are meant: those that match every field that is set. Its zero value means
// all of them.
type Filter = store.DeadFilter

// Entry is one dead letter in a list.
type Entry = store.DeadRow

// Letters are the dead letters of one store. It is safe for concurrent use.
type Letters struct {
	store *store.Store
}

// New looks at the dead letters of a store, which must not be nil. There is nothing to close.
func New(st *store.Store) *Letters { return &Letters{store: st} }

// Page says which part of a list to read. Its zero value: the newest DefaultPage.
type Page struct {
	// Cursor is what List returned with the page before, for the same filter and order. "": from the start.
	Cursor string
	// OldestFirst turns the order round. False: what died last comes first.
	OldestFirst bool
	// Limit is how many entries to read, 1 to MaxPage; zero or less: DefaultPage, and more is cut to MaxPage.
	Limit int
}

// List reads one page of the dead letters that match f, by when they died, and those that died in one
// transaction by id. next is the Cursor of the page after it; "" when this is the last.
//
// What is there from the first page to the last is visited once, whatever comes and goes meanwhile. A
// filter by queue or time reads no more than it returns; others read past what does not match, and a tree or a
// parent is read whole for every page.
//
// Errors: [ErrBadFilter], [ErrBadCursor].
func (l *Letters) List(ctx context.Context, f Filter, p Page) (entries []Entry, next string, err error) {
	limit := p.Limit
	if limit <= 0 {
		limit = DefaultPage
	}
	after, err := parseCursor(p.Cursor, p.OldestFirst)
	if err != nil {
		return nil, "", err
	}
	entries, last, err := l.store.DeadLetters(ctx, f, store.DeadPage{
		After: after, OldestFirst: p.OldestFirst, Limit: min(limit, MaxPage),
	})
	if err != nil {
		return nil, "", err
	}
	return entries, formatCursor(last, order(p.OldestFirst)), nil
}
