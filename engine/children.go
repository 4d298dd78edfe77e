package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// Children is what a finalizer may know of its children: how they ended, and what they gave. All of them have
// settled, or count as settled by the parent's policy, when the finalizer runs.
type Children struct {
	Completed int
	Dead      int // in the dead-letter queue; only with a policy that goes on in spite of them
	Cancelled int
	Removed   int // deleted from the dead-letter queue

	// Round is the round of the parent that these children were made for; 0: all of them. The counts are
	// always of all.
	Round int

	store  *store.Store
	parent tree.ID
	root   tree.ID
}

// InRound returns the children that were made for one round, from 1, so that [Results] reads theirs alone. The
// children a job was inserted with are those of round 1, as are those of its first [FanOut].
func (k *Children) InRound(round int) *Children {
	one := *k
	one.Round = round
	return &one
}

// Total is how many children there were.
func (k *Children) Total() int { return k.Completed + k.Dead + k.Cancelled + k.Removed }

// Result is one child's result.
type Result[T any] struct {
	ID    tree.ID
	Kind  string
	Key   string // the child's key; "": none
	Value T
}

// DeadChild is a child that is in the dead-letter queue.
type DeadChild = store.DeadChild

// resultsPage is how many results are in memory at once.
const resultsPage = 1_000

// Results yields the results of the children that completed and gave one, in child order, decoded as T. They
// are read page by page: a hundred thousand are never in memory together. A result that does not decode
// yields an error and the child's id, and the iteration may go on; an error of the database ends it. For
// children of several kinds use T = json.RawMessage and decode by Kind.
func Results[T any](ctx context.Context, kids *Children) iter.Seq2[Result[T], error] {
	return func(yield func(Result[T], error) bool) {
		var after tree.ID
		for {
			page, err := kids.store.Results(ctx, kids.parent, kids.Round, after, resultsPage)
			if err != nil {
				yield(Result[T]{}, err)
				return
			}
			for _, row := range page {
				r := Result[T]{ID: row.ChildID, Kind: row.Kind, Key: row.Key}
				err := json.Unmarshal(row.Value, &r.Value)
				if err != nil {
					err = fmt.Errorf("decode the result of child %d (kind %q): %w", row.ChildID, row.Kind, err)
				}
				if !yield(r, err) {
					return
				}
			}
			if len(page) < resultsPage {
				return
			}
			after = page[len(page)-1].ChildID
		}
	}
}

// DeadJobs yields the dead children in child order, read page by page. An error ends it.
func (k *Children) DeadJobs(ctx context.Context) iter.Seq2[DeadChild, error] {
	return func(yield func(DeadChild, error) bool) {
		var after tree.ID
		for {
			page, err := k.store.DeadChildren(ctx, k.root, k.parent, after, resultsPage)
			if err != nil {
				yield(DeadChild{}, err)
				return
			}
			for _, d := range page {
				if !yield(d, nil) {
					return
				}
			}
			if len(page) < resultsPage {
				return
			}
			after = page[len(page)-1].ID
		}
	}
}
