package engine

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// ClientConfig configures a client. The zero value is fit for use.
type ClientConfig struct {
	Schema string       // of Coppice's tables; "": store.DefaultSchema
	Logger *slog.Logger // nil: logs nothing
}

// Client inserts jobs. It needs no handlers and no worker, is safe for concurrent use, and keeps no goroutine
// while it is idle.
type Client struct {
	Inserter
	store  *store.Store
	logger *slog.Logger
	notes  *notifier
	waits  *waits

	mu     sync.Mutex
	wakers map[*Worker]struct{} // workers of this process, woken without a round trip; guarded by mu
}

// NewClient makes a client on a pool, which stays the caller's. It does no I/O.
func NewClient(pool *pgxpool.Pool, config ClientConfig) (*Client, error) {
	st, err := store.New(pool, config.Schema)
	if err != nil {
		return nil, err
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{store: st, logger: config.Logger, wakers: map[*Worker]struct{}{}}
	c.notes = newNotifier(st, config.Logger)
	c.waits = newWaits(c)
	c.Inserter = Inserter{client: c}
	return c, nil
}

// Close waits until the wake-ups of inserts that have returned have been sent, within ctx, whatever others insert
// meanwhile. The client may still be used.
func (c *Client) Close(ctx context.Context) error { return c.notes.flush(ctx) }

// Store returns the store that the client works on.
func (c *Client) Store() *store.Store { return c.store }

// InTx returns an inserter that works in the caller's transaction: the jobs exist when it commits. Workers find
// them within their poll interval, or at once if Wake is called after the commit. Above READ COMMITTED, a dedup
// key that is held by a job which the transaction cannot see fails as a serialization failure (40001).
func (c *Client) InTx(tx pgx.Tx) Inserter {
	if tx == nil {
		return Inserter{client: c, noTx: true}
	}
	return Inserter{client: c, tx: store.PgxTx(tx)}
}

// InSQLTx is [Client.InTx] for a transaction of database/sql, with any driver for PostgreSQL.
func (c *Client) InSQLTx(tx *sql.Tx) Inserter {
	if tx == nil {
		return Inserter{client: c, noTx: true}
	}
	return Inserter{client: c, tx: store.SQLTx(tx)}
}

// Wake tells workers that the queues may have jobs. It only hints: it is sent soon, at most every few
// milliseconds, and a lost hint costs a poll interval.
func (c *Client) Wake(queues ...string) { c.signal(queues) }

// ended tells those who wait for jobs that they have ended: in this process directly, in others by a hint.
func (c *Client) ended(ids []tree.ID) {
	if len(ids) > 0 {
		c.waits.ended(ids...)
		c.notes.markEnded(ids)
	}
}

func (c *Client) addWaker(w *Worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wakers[w] = struct{}{}
}

func (c *Client) removeWaker(w *Worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.wakers, w)
}

// Inserter inserts jobs, in transactions of its own or in the caller's. It comes from a client: the zero value
// refuses every insert, as does that of a nil transaction.
type Inserter struct {
	client *Client
	tx     store.Tx // nil: its own
	noTx   bool     // the caller's was nil: outside of it nothing may be inserted
}

// usable says why nothing can be inserted.
func (i Inserter) usable() error {
	switch {
	case i.client == nil:
		return errors.New("coppice: insert: the inserter has no client; use one of NewClient, or what its InTx returns")
	case i.noTx:
		return errors.New("coppice: insert: the transaction is nil")
	}
	return nil
}

// Receipt says what an insert did.
type Receipt struct {
	// ID is the job's id, the root's for a tree; that of the live job which holds the key, for a duplicate.
	ID tree.ID
	// Duplicate: a live job held the dedup key, and nothing was inserted.
	Duplicate bool
	// Replaced: a live job held the dedup key, and has taken over what the node says (tree.Replace).
	Replaced bool
	// Signal says whether workers are told of what was inserted.
	Signal Signal
	// Skipped are the nodes of a tree that were left out because live jobs hold their keys (tree.Skip).
	Skipped []SkippedNode
	// IDs are the ids of the node and everything below it, each node before its children and with all of
	// its descendants before its next sibling; for a duplicate the holder's alone. 0 for what was skipped.
	IDs []tree.ID
}

// SkippedNode is a node that was left out of its tree, with all that was below it.
type SkippedNode struct {
	Path string  // as tree.Plan.Path gives it
	Key  string  // its dedup key
	ID   tree.ID // the live job that holds the key
}

// DuplicateError refuses a tree, whole, because a live job holds the dedup key of one of its nodes.
type DuplicateError = store.DuplicateError

// Insert inserts a job, or a tree of jobs, at once and whole. Every limit is checked before anything is
// written. A single job whose dedup key is held by a live job is answered with that job's id; a tree with
// such a node is refused. Errors: *tree.InvalidError, *DuplicateError, or the database's, after which
// whether the job exists is unknown if the connection broke; with a dedup key the insert may then be repeated.
func (i Inserter) Insert(ctx context.Context, node *tree.Node) (Receipt, error) {
	out, err := i.InsertMany(ctx, node)
	if err != nil {
		return Receipt{}, err
	}
	return out[0], nil
}

// InsertMany inserts several jobs and trees in one transaction, like Insert, and answers for each in order.
func (i Inserter) InsertMany(ctx context.Context, nodes ...*tree.Node) ([]Receipt, error) {
	if err := i.usable(); err != nil {
		return nil, err
	}
	plan, err := tree.NewPlan(nodes...)
	if err != nil {
		return nil, err
	}
	var rows []store.Inserted
	if i.tx != nil {
		rows, err = i.client.store.InsertTx(ctx, i.tx, plan)
	} else {
		rows, err = i.client.store.Insert(ctx, plan)
	}
	if err != nil {
		return nil, err
	}
	signal := Signal{Cause: ErrInTransaction}
	if i.tx == nil {
		signal = i.client.signal(plan.Queues())
	}
	out := receipts(plan, rows)
	for n := range out {
		if !out[n].Duplicate || out[n].Replaced {
			out[n].Signal = signal
		}
	}
	return out, nil
}

func receipts(plan *tree.Plan, rows []store.Inserted) []Receipt {
	ids := make([]tree.ID, len(rows))
	for n, r := range rows {
		ids[n] = r.ID
	}
	out := make([]Receipt, 0, plan.Roots)
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && plan.Specs[to].Root == from {
			to++
		}
		r := Receipt{ID: rows[from].ID, Duplicate: rows[from].Duplicate, Replaced: rows[from].Replaced}
		for i := from + 1; i < to && !r.Duplicate; i++ {
			if rows[i].Duplicate { // below a root that was inserted: it was skipped
				r.Skipped = append(r.Skipped, SkippedNode{plan.Path(i), plan.Specs[i].DedupKey, rows[i].ID})
				ids[i] = 0
			}
		}
		if r.IDs = ids[from:to:to]; r.Duplicate {
			r.IDs = ids[from : from+1 : from+1]
		}
		out = append(out, r)
		from = to
	}
	return out
}
