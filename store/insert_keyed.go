package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/coppicehq/coppice/tree"
)

// DuplicateError refuses a tree, whole, because a live job holds the dedup key of one of its nodes.
type DuplicateError struct {
	Path string  // the node, as tree.Plan.Path gives it
	Key  string  // its dedup key
	ID   tree.ID // the live job that holds the key
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("coppice: the tree was not inserted: dedup key %q of %s is held by live job %d; wait for that job, or give the node another key",
		e.Key, e.Path, e.ID)
}

// insertKeyedSQL takes ids that were drawn before and leaves out whose dedup key is held (jobs_dedup). Keys
// are taken in ascending order, so that two batches of the same keys cannot wait for each other.
var insertKeyedSQL = insertText(``, `n.id`, `n.parent`, `n.root`, ``, ` ORDER BY n.dedup_key COLLATE "C" NULLS FIRST, n.n
	ON CONFLICT (dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING RETURNING id`)

// keyTries bounds how often an insert is tried again because a key that was held when it came was free, or held by
// another job that had not committed, when it looked who holds it.
const keyTries = 12

// errKeyFreed says that who held a key has ended since.
var errKeyFreed = errors.New("the holders of a dedup key came and went too fast; insert again")

func hasDedup(plan *tree.Plan) bool {
	return slices.ContainsFunc(plan.Specs, func(s tree.Spec) bool { return s.DedupKey != "" })
}

// insertKeyed inserts a plan with dedup keys, in what in makes: a transaction, or a savepoint of one. A holder
// that ends while we look frees its key; then all is undone and tried again, rather than the one key
// taken late, since keys that are not taken in order can deadlock.
func (s *Store) insertKeyed(ctx context.Context, plan *tree.Plan, in func(func(Tx) error) error) ([]Inserted, error) {
	all := make([]Inserted, len(plan.Specs))
	origin := places(plan) // of what is left of the plan, in the plan
	for try := 1; ; try++ {
		var out []Inserted
		err := in(func(tx Tx) (err error) {
			out, err = s.insertKeyedOnce(ctx, tx, plan, nil)
			return err
		})
		var held *heldError
		switch {
		case err == nil:
			for i := range all {
				all[i].Skipped = true
			}
			for i, o := range origin {
				all[o] = out[i]
			}
			return all, nil
		case errors.As(err, &held):
			for n, place := range held.places {
				all[origin[place]] = Inserted{ID: held.holders[n], Duplicate: true, Skipped: true}
			}
			rest, kept := plan.Without(held.places)
			for i, k := range kept {
				kept[i] = origin[k]
			}
			plan, origin = rest, kept
			try--
			continue
		}
		if try >= keyTries || !errors.Is(err, errKeyFreed) {
			return nil, wrapInsert(err)
		}
		if err := pause(ctx, min(try, 6)); err != nil {
			return nil, wrapInsert(err)
		}
	}
}

// heldError undoes an insert of trees whose nodes at these places, ascending, are to be skipped: live jobs hold their keys.
type heldError struct {
	places  []int
	holders []tree.ID
}

func (e *heldError) Error() string {
	return fmt.Sprintf("the keys of %d nodes are held", len(e.places))
}

// insertSkipping inserts children below a job in a savepoint, again without those that are to be skipped because their keys are
// held. It answers what was left of the plan.
func (s *Store) insertSkipping(ctx context.Context, tx Tx, plan *tree.Plan, on *graft) (*tree.Plan, error) {
	for {
		err := tx.guard(ctx, func(tx Tx) error {
			_, err := s.insertKeyedOnce(ctx, tx, plan, on)
			return err
		})
		var held *heldError
		if !errors.As(err, &held) {
			return plan, err
		}
		plan, _ = plan.Without(held.places)
	}
}

func (s *Store) insertKeyedOnce(ctx context.Context, tx Tx, plan *tree.Plan, on *graft) ([]Inserted, error) {
	locked, err := s.lockReplaced(ctx, tx, plan)
	if err != nil {
		return nil, err
	}
	ids, err := s.draw(ctx, tx, len(plan.Specs))
	if err != nil {
		return nil, err
	}
	made := make(map[int64]struct{}, len(ids))
	for part := range slices.Chunk(byKey(plan), chunk) {
		if err := tx.query(ctx, s.insertKeyedSQL, specArgs(plan, part, ids, on), readSet(made)); err != nil {
			return nil, err
		}
	}
	out := fresh(ids)
	if len(made) == len(ids) {
		return out, nil
	}
	var missed []int // places in the plan
	var keys []string
	for i, id := range ids {
		if _, ok := made[id]; !ok {
			missed = append(missed, i)
			keys = append(keys, plan.Specs[i].DedupKey)
		}
	}
	holders, err := s.holders(ctx, tx, keys)
	if err != nil {
		return nil, err
	}
	skip := &heldError{}
	var replace []int
	for n, i := range missed {
		id, ok := holders[keys[n]]
		switch {
		case !ok:
			return nil, errKeyFreed
		case plan.InTree(i) && plan.Specs[i].OnDuplicate == tree.Skip:
			skip.places, skip.holders = append(skip.places, i), append(skip.holders, id)
			continue
		case plan.InTree(i):
			return nil, &DuplicateError{Path: plan.Path(i), Key: keys[n], ID: id}
		}
		out[i] = Inserted{ID: id, Duplicate: true}
		if ids[i] = int64(id); plan.Specs[i].OnDuplicate == tree.Replace {
			replace = append(replace, i)
		}
	}
	if len(skip.places) > 0 {
		return nil, skip
	}
	if len(replace) == 0 {
		return out, nil
	}
	maps.Copy(made, locked)
	return out, s.replace(ctx, tx, plan, replace, ids, made, out)
}

// byKey lists the places of a plan's specs in the order in which their keys are to be taken, across all
// statements of the insert. There is no foreign key, so a child may go in before its parent.
func byKey(plan *tree.Plan) []int {
	order := places(plan)
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(plan.Specs[a].DedupKey, plan.Specs[b].DedupKey)
	})
	return order
}

// holdersSQL reads by jobs_dedup, and locks nothing.
const holdersSQL = `SELECT dedup_key, id FROM {s}.jobs WHERE dedup_key = ANY ($1::text[])`

// holders finds the live jobs that hold the keys. A new statement sees what has committed since the insert
// waited for it.
func (s *Store) holders(ctx context.Context, tx Tx, keys []string) (map[string]tree.ID, error) {
	found := make(map[string]tree.ID, len(keys))
	err := tx.query(ctx, s.holdersSQL, []any{keys},
		func(rows scanner) error {
			for rows.Next() {
				var key string
				var id int64
				if err := rows.Scan(&key, &id); err != nil {
					return err
				}
				found[key] = tree.ID(id)
			}
			return rows.Err()
		})
	return found, err
}

// snapshotTooOld explains the serialization failure with which PostgreSQL answers, in a transaction of one
// snapshot, when a key is held by a job that the snapshot does not show.
func snapshotTooOld(err error) error {
	var state interface{ SQLState() string }
	if !errors.As(err, &state) || state.SQLState() != "40001" {
		return err
	}
	return fmt.Errorf("a dedup key is held by a job that this transaction cannot see, because it began before that job was inserted; run the transaction again, use READ COMMITTED, or insert outside of it: %w", err)
}

func readSet(set map[int64]struct{}) func(scanner) error {
	return func(rows scanner) error {
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				return err
			}
			set[id] = struct{}{}
		}
		return rows.Err()
	}
}
