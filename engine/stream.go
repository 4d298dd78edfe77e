package engine

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// A transaction of a stream has at most so many children, and goes as soon as it has so many jobs or bytes of args, or its
// first child has waited for so long when another comes: one more than this bounds what a stream has in memory.
const (
	maxStreamChunk = 2_000
	streamNodes    = 10_000
	streamBytes    = 4 << 20
	streamWait     = time.Second

	// firstStreamChunk is how many children the first has: they are to run soon.
	firstStreamChunk = 100
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
// seals it. They go in chunks of at most 2,000 children, which end early at 10,000 jobs, at 4 MiB of args, and when a child
// comes a second after the chunk's first: each in a transaction of its own, so that they run while others are still
// coming. The parent runs when the last of all has settled. Memory does not grow with the length of the stream.
//
// An error that the iterator yields ends the stream, as does the context's end. Errors: [*StreamError] once the parent is
// there; before, those of Insert.
func (c *Client) Stream(ctx context.Context, parent *tree.Node, children iter.Seq2[*tree.Node, error]) (Streamed, error) {
	if parent != nil {
		parent = parent.With(func(s *tree.Spec) {
			if s.SealBy == 0 {
				s.SealBy = tree.DefaultSealBy
			}
		})
	}
	plan, err := tree.NewPlan(parent)
	if err != nil {
		return Streamed{}, err
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
// it must go on where it stopped; whether the last chunk was made is unknown if what stopped it was a broken connection.
func (c *Client) ContinueStream(ctx context.Context, parent tree.ID, children iter.Seq2[*tree.Node, error]) (Streamed, error) {
	out := Streamed{ID: parent}
	var chunk tree.Gather
	var since time.Time // when the chunk's first child came
	limit := firstStreamChunk
	add := func() error {
		err := c.addChunk(ctx, &out, &chunk)
		limit = min(4*limit, maxStreamChunk)
		return err
	}
	for child, err := range children {
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = chunk.Add(child)
		}
		if chunk.Children() == 1 {
			since = time.Now()
		}
		if err == nil && (chunk.Children() >= limit || chunk.Nodes() >= streamNodes || chunk.ArgsBytes() >= streamBytes ||
			time.Since(since) >= streamWait) {
			err = add()
		}
		if err != nil {
			return out, &StreamError{out, err}
		}
	}
	if chunk.Children() > 0 {
		if err := add(); err != nil {
			return out, &StreamError{out, err}
		}
	}
	if err := c.Seal(ctx, parent); err != nil {
		return out, &StreamError{out, err}
	}
	return out, nil
}

// addChunk adds what was gathered, and leaves the gather empty.
func (c *Client) addChunk(ctx context.Context, out *Streamed, chunk *tree.Gather) error {
	plan, err := chunk.Take()
	if err != nil {
		return err
	}
	return c.addPlan(ctx, out, plan)
}

func (c *Client) addPlan(ctx context.Context, out *Streamed, plan *tree.Plan) error {
	added, err := c.store.AddChildren(ctx, out.ID, plan)
	if err != nil {
		return err
	}
	out.Made += added.Made
	out.Found += added.Found
	c.wakeAll(added.Woken)
	return nil
}

// AddChildren puts children, and what is below them, under a job that was inserted with tree.Open and is not sealed
// ([store.Store.AddChildren]), in one transaction.
func (c *Client) AddChildren(ctx context.Context, parent tree.ID, children ...*tree.Node) (Streamed, error) {
	out := Streamed{ID: parent}
	plan, err := tree.NewFanOut(children...)
	if err == nil {
		err = c.addPlan(ctx, &out, plan)
	}
	return out, err
}

// Seal says that no more children will come to an open job ([store.Store.Seal]).
func (c *Client) Seal(ctx context.Context, parent tree.ID) error {
	woken, err := c.store.Seal(ctx, parent)
	c.wakeAll(woken)
	return err
}
