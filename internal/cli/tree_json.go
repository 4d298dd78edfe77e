package cli

import (
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// pictureJSON is what "tree show --json" answers.
type pictureJSON struct {
	Tree    tree.ID              `json:"tree"`
	States  map[tree.State]int64 `json:"states"`          // jobs of the whole tree
	AtLeast bool                 `json:"states_at_least"` // there are more than States counts
	Job     branchJSON           `json:"job"`
}

type branchJSON struct {
	childJSON
	Children []branchJSON         `json:"children"`
	Hidden   map[tree.State]int64 `json:"hidden,omitempty"` // children that are not listed
	Gone     int64                `json:"gone,omitempty"`   // ended children of which nothing is kept
	Closed   bool                 `json:"closed,omitempty"` // children were not looked for: see --depth
}

// childJSON is one job in the answers of "tree show".
type childJSON struct {
	ID          tree.ID       `json:"id"`
	Place       store.Place   `json:"place"`
	Kind        string        `json:"kind"`
	Key         string        `json:"key,omitempty"`
	State       tree.State    `json:"state"`
	Stalled     bool          `json:"stalled,omitempty"`
	Held        bool          `json:"held,omitempty"`
	Queue       string        `json:"queue"`
	Round       int           `json:"round"`
	Attempt     int           `json:"attempt"`
	MaxAttempts int           `json:"max_attempts"`
	Reason      tree.Reason   `json:"reason,omitempty"`
	LastError   string        `json:"last_error,omitempty"`
	Counters    *countersJSON `json:"counters,omitempty"` // of its children, if it has or had any
}

func childOf(c store.ChildRow) childJSON {
	out := childJSON{
		ID: c.ID, Place: c.Place, Kind: c.Kind, Key: c.ChildKey, State: c.State, Held: c.Held, Queue: c.Queue,
		Round: c.Round, Attempt: c.Attempt, MaxAttempts: c.MaxAttempts, Reason: c.Reason, LastError: c.LastError,
	}
	if c.Round > 0 {
		counters := countersOf(c.Counters)
		out.Counters = &counters
	}
	return out
}

func (p *picture) json() pictureJSON {
	return pictureJSON{Tree: p.root, States: p.counts.States, AtLeast: p.counts.More, Job: p.top.json()}
}

func (b *branch) json() branchJSON {
	out := branchJSON{childJSON: childOf(b.ChildRow), Children: []branchJSON{}, Hidden: b.hidden, Gone: b.gone, Closed: b.closed}
	out.Stalled = b.Stalled
	for _, c := range b.children {
		out.Children = append(out.Children, c.json())
	}
	return out
}
