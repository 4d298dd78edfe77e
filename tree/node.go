package tree

import "slices"

// Args is what a job works on: any type that encodes as JSON and names its kind. Kind must work on the
// zero value, return the same word for every value, and stay the same for as long as jobs of the
// kind exist; engine registrations accept aliases for a kind that was renamed.
//
// What is stored, and given back byte for byte, is what json.Marshal makes of the args. It keeps the order,
// the doubles and the digits of a json.RawMessage, but not its spaces, and writes <, >, &, U+2028 and
// U+2029 as escapes.
type Args interface {
	// Kind is 1 to MaxKindBytes bytes of UTF-8.
	Kind() string
}

// Node describes a job to be inserted, and the children it waits for. A node with children, or with an
// empty Add, is a finalizer: it only runs its Finalize handler, after all children have settled.
type Node struct {
	args      Args
	options   []Option
	children  []*Node
	finalizes bool
}

// New describes a job. Nothing is checked until the node is inserted.
func New(args Args, options ...Option) *Node {
	return &Node{args: args, options: options}
}

// Add puts children under the node and returns the node. Called without any it makes the node a
// finalizer of nothing, which is ready at once: a fan-out that happened to be empty.
func (n *Node) Add(children ...*Node) *Node {
	n.finalizes = true
	n.children = append(n.children, children...)
	return n
}

// With returns a copy of the node, over the same children, with more options after its own.
func (n *Node) With(options ...Option) *Node {
	more := *n
	more.options = append(slices.Clip(n.options), options...)
	return &more
}
