package engine

import (
	"context"
	"fmt"
	"iter"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

const (
	// maxStreamChunk bounds the children of one transaction of a stream.
	maxStreamChunk = 2_000
	// streamBytes is how many bytes of args such a transaction aims at.
	streamBytes = 4 << 20
)

// NotOpenError refuses to add children to a job, or to seal it.
type NotOpenError = store.NotOpenError

// Streamed is what a stream did.
type Streamed struct {
	ID    tree.ID // the parent
	Made  int     // children that are new
	Found int     // children that were there already, by their keys
}

// StreamError says that a stream stopped before its end. The parent is open, and what was added to it runs: the stream can be
// taken up again with [Client.ContinueStream], or the tree cancelled; otherwise it is given up when its time to be
// sealed is over (tree.Open).
type StreamError struct {
	Streamed
	Err error
}

func (e *StreamError) Error() string {
	return fmt.Sprintf("coppice: the stream into job %d stopped after %d children; continue it with ContinueStream, or cancel the job: %v",
		e.ID, e.Made+e.Found, e.Err)
}

// Unwrap returns what stopped the stream.
func (e *StreamError) Unwrap() error { return e.Err }

// Stream inserts a parent that is open to more children, adds the children that the iterator yields, however many, and
// seals it. They go in chunks of at most 2,000, each in a transaction of its own, and run while others are still
// coming; the parent runs when the last of all has settled. Memory does not grow with the length of the stream.
//
// An error that the iterator yields ends the stream, as does the context's end. Errors: [*StreamError] once the parent is
// there; before, those of Insert.
func (c *Client) Stream(ctx context.Context, parent *tree.Node, children iter.Seq2[*tree.Node, error]) (Streamed, error) {
	plan, err := tree.NewPlan(parent)
	if err != nil {
		return Streamed{}, err
	}
	if root := &plan.Specs[0]; root.SealBy == 0 {
		root.SealBy, root.Finalizes = tree.DefaultSealBy, true
	}
	rows, err := c.store.Insert(ctx, plan)
	if err != nil {
		return Streamed{}, err
	}
	if rows[0].Duplicate {
		return Streamed{}, &DuplicateError{Path: plan.Path(0), Key: plan.Specs[0].DedupKey, ID: rows[0].ID}
	}
	c.Wake(plan.Queues()...)
	return c.ContinueStream(ctx, rows[0].ID, children)
}

// ContinueStream adds children to an open job and seals it, like [Client.Stream]. Children with keys (tree.Key) that the job
// has, or had, are not made again: a stream that stopped half-way may be begun anew from its start. Without keys
// it must go on where it stopped.
func (c *Client) ContinueStream(ctx context.Context, parent tree.ID, children iter.Seq2[*tree.Node, error]) (Streamed, error) {
	out := Streamed{ID: parent}
	size := 100
	var batch []*tree.Node
	add := func() error {
		bytes, err := c.addChunk(ctx, &out, batch)
		if err == nil {
			size = min(max(1, len(batch)*streamBytes/max(bytes, 1)), 4*size, maxStreamChunk)
		}
		batch = batch[:0]
		return err
	}
	for child, err := range children {
		if err != nil {
			return out, &StreamError{out, err}
		}
		if batch = append(batch, child); len(batch) >= size {
			if err := add(); err != nil {
				return out, &StreamError{out, err}
			}
		}
		if ctx.Err() != nil {
			return out, &StreamError{out, context.Cause(ctx)}
		}
	}
	if len(batch) > 0 {
		if err := add(); err != nil {
			return out, &StreamError{out, err}
		}
	}
	if err := c.Seal(ctx, parent); err != nil {
		return out, &StreamError{out, err}
	}
	return out, nil
}

func (c *Client) addChunk(ctx context.Context, out *Streamed, batch []*tree.Node) (bytes int, err error) {
	plan, err := tree.NewFanOut(batch...)
	if err != nil {
		return 0, err
	}
	for i := range plan.Specs {
		bytes += len(plan.Specs[i].Args)
	}
	added, err := c.store.AddChildren(ctx, out.ID, plan)
	if err != nil {
		return 0, err
	}
	out.Made += added.Made
	out.Found += added.Found
	c.wakeAll(added.Woken)
	return bytes, nil
}

// AddChildren puts children, and what is below them, under a job that was inserted with tree.Open and is not sealed
// ([store.Store.AddChildren]), in one transaction.
func (c *Client) AddChildren(ctx context.Context, parent tree.ID, children ...*tree.Node) (Streamed, error) {
	out := Streamed{ID: parent}
	_, err := c.addChunk(ctx, &out, children)
	return out, err
}

// Seal says that no more children will come to an open job ([store.Store.Seal]).
func (c *Client) Seal(ctx context.Context, parent tree.ID) error {
	woken, err := c.store.Seal(ctx, parent)
	c.wakeAll(woken)
	return err
}
