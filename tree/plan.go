package tree

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Plan is a checked forest, flattened so that every parent comes before its children and a node's
// descendants follow it without a gap (preorder). Ids given out in the order of Specs therefore rise
// from ancestors to descendants, and a tree's early branches finish before its late ones start.
type Plan struct {
	Specs []Spec
	Roots int // how many of Specs are roots
	// FanOut: the roots are not roots of trees but children of a job that exists already.
	FanOut bool
}

// NewPlan checks the nodes and everything below them and flattens them. Any node that breaks a limit,
// stands in the forest twice or is its own ancestor makes the whole plan fail, with an [*InvalidError]
// for the first such node; nodes are not changed and may be planned again.
func NewPlan(nodes ...*Node) (*Plan, error) {
	return (&Plan{Roots: len(nodes)}).fill(MaxNodes, nodes)
}

// NewFanOut is [NewPlan] for nodes that are to become children of a job that exists: they may have keys, and
// all of them are of one tree. There may be none.
func NewFanOut(children ...*Node) (*Plan, error) {
	return (&Plan{Roots: len(children), FanOut: true}).fill(MaxNodes, children)
}

// fill plans at most so many nodes.
func (p *Plan) fill(most int, nodes []*Node) (*Plan, error) {
	if err := p.walk(most, 0, nodes); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return p, nil
}

// walk adds at most so many nodes to the plan; first is the place of the first among the roots.
func (p *Plan) walk(most, first int, nodes []*Node) error {
	type frame struct {
		node            *Node
		parent, ordinal int
		depth           int
	}
	// A stack instead of recursion: the depth of a tree is the caller's to choose, our stack is not.
	stack := make([]frame, 0, len(nodes)+8)
	for i := len(nodes) - 1; i >= 0; i-- {
		stack = append(stack, frame{node: nodes[i], parent: -1, ordinal: first + i})
	}
	before := len(p.Specs)
	seen := make(map[*Node]struct{}, len(nodes))
	for len(stack) > 0 {
		f := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		i := len(p.Specs)
		p.Specs = append(p.Specs, Spec{Parent: f.parent, Root: i, ordinal: f.ordinal, child: f.parent >= 0 || p.FanOut})
		s := &p.Specs[i]
		if f.parent >= 0 {
			s.Root = p.Specs[f.parent].Root
		}
		if f.node == nil {
			return p.invalid(i, "node", "is nil; make nodes with tree.New")
		}
		if _, again := seen[f.node]; again {
			return p.invalid(i, "node", "stands in the forest twice; every node needs a tree.New of its own")
		}
		seen[f.node] = struct{}{}
		switch {
		case i-before >= most:
			return p.invalid(i, "node", fmt.Sprintf("is one more than the %d jobs that one insert takes", most))
		case f.depth >= MaxDepth:
			return p.invalid(i, "node", fmt.Sprintf("is deeper than the %d levels that one insert takes", MaxDepth))
		}
		if err := f.node.fill(s); err != nil {
			var fe fieldError
			if errors.As(err, &fe) {
				return p.invalid(i, fe.field, fe.problem)
			}
			return err
		}
		for c := len(f.node.children) - 1; c >= 0; c-- {
			stack = append(stack, frame{node: f.node.children[c], parent: i, ordinal: c, depth: f.depth + 1})
		}
	}
	return nil
}

// check looks at what nodes share.
func (p *Plan) check() error {
	if err := p.checkKeys(); err != nil {
		return err
	}
	return p.checkDedupKeys()
}

// checkKeys refuses two siblings of one key.
func (p *Plan) checkKeys() error {
	type sibling struct {
		parent int
		key    string
	}
	var taken map[sibling]int
	for i := range p.Specs {
		s := &p.Specs[i]
		if s.ChildKey == "" {
			continue
		}
		if taken == nil {
			taken = make(map[sibling]int)
		}
		k := sibling{s.Parent, s.ChildKey}
		if first, ok := taken[k]; ok {
			return p.invalid(i, "key", fmt.Sprintf("%q is the key of child %d too; keys are unique under a parent",
				s.ChildKey, p.Specs[first].ordinal))
		}
		taken[k] = i
	}
	return nil
}

// InTree reports whether spec i has a parent or children in the plan: such a node is inserted with its tree or not
// at all.
func (p *Plan) InTree(i int) bool {
	return p.FanOut || p.Specs[i].Parent >= 0 || p.Specs[i].Children > 0
}

// Without returns the plan less the nodes at the given places, ascending, and everything below them: their parents have so many
// children fewer. kept are the places of what is left. Without any places it returns the plan itself.
func (p *Plan) Without(places []int) (rest *Plan, kept []int) {
	kept = make([]int, 0, len(p.Specs))
	if len(places) == 0 {
		for i := range p.Specs {
			kept = append(kept, i)
		}
		return p, kept
	}
	rest = &Plan{Roots: p.Roots, FanOut: p.FanOut}
	now := make([]int, len(p.Specs)) // the place in rest; -1: left out
	for i := range p.Specs {
		s := p.Specs[i]
		named := len(places) > 0 && places[0] == i
		if named {
			places = places[1:]
		}
		if above := s.Parent >= 0 && now[s.Parent] < 0; named || above {
			now[i] = -1
			switch {
			case s.Parent < 0:
				rest.Roots--
			case !above:
				rest.Specs[now[s.Parent]].Children--
			}
			continue
		}
		now[i] = len(rest.Specs)
		s.Root = now[s.Root]
		if s.Parent >= 0 {
			s.Parent = now[s.Parent]
		}
		rest.Specs, kept = append(rest.Specs, s), append(kept, i)
	}
	return rest, kept
}

// checkDedupKeys refuses a tree in which a node's dedup key is that of an earlier node: the earlier one would
// hold the key when the tree goes in. Of jobs outside trees the later one is a duplicate, which is fine.
func (p *Plan) checkDedupKeys() error {
	var taken map[string]int
	for i := range p.Specs {
		key := p.Specs[i].DedupKey
		if key == "" {
			continue
		}
		if taken == nil {
			taken = make(map[string]int)
		}
		first, ok := taken[key]
		if !ok {
			taken[key] = i
			continue
		}
		if p.InTree(i) {
			return p.invalid(i, "dedup key", fmt.Sprintf("%q is the key of %s too; only one live job holds a key", key, p.Path(first)))
		}
	}
	return nil
}

// Path says where spec i stands, as errors name it: "root", or "root[2]" for the third of several roots, or
// "child[2]" for the third child of a fan-out, then "/" and the index among its siblings for each level below.
func (p *Plan) Path(i int) string {
	var steps []string
	for p.Specs[i].Parent >= 0 {
		steps = append(steps, strconv.Itoa(p.Specs[i].ordinal))
		i = p.Specs[i].Parent
	}
	root := "root"
	switch {
	case p.FanOut:
		root = fmt.Sprintf("child[%d]", p.Specs[i].ordinal)
	case p.Roots > 1:
		root = fmt.Sprintf("root[%d]", p.Specs[i].ordinal)
	}
	steps = append(steps, root)
	for a, b := 0, len(steps)-1; a < b; a, b = a+1, b-1 {
		steps[a], steps[b] = steps[b], steps[a]
	}
	if n := len(steps); n > 12 { // a chain of thousands is not readable, and an error is for reading
		steps = append(append(steps[:6:6], "..."), steps[n-5:]...)
	}
	return strings.Join(steps, "/")
}

func (p *Plan) invalid(i int, field, problem string) error {
	return &InvalidError{Path: p.Path(i), Kind: Clip(p.Specs[i].Kind, MaxKindBytes), Field: field, Problem: problem}
}

// Queues lists the queues of the plan's jobs, each once, in the order in which they first come.
func (p *Plan) Queues() []string {
	seen := make(map[string]struct{}, 1)
	var queues []string
	for i := range p.Specs {
		q := p.Specs[i].Queue
		if _, ok := seen[q]; !ok {
			seen[q] = struct{}{}
			queues = append(queues, q)
		}
	}
	return queues
}
