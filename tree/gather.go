package tree

// Gather plans children of a job that exists one after the other, for a caller who does not have all of them at once and
// wants to know how much there is to insert. The zero value is empty. What it holds are the children as they will be
// inserted, not the nodes.
type Gather struct {
	plan  Plan
	count int // children since the beginning, as errors number them
	bytes int
}

// Add plans one more child, and everything below it. Errors: [*InvalidError], which counts children from the gather's
// first; the gather is of no more use then.
func (g *Gather) Add(child *Node) error {
	g.plan.FanOut = true
	before := len(g.plan.Specs)
	if err := g.plan.walk(MaxNodes, g.count, []*Node{child}); err != nil {
		return err
	}
	g.plan.Roots++
	g.count++
	for i := before; i < len(g.plan.Specs); i++ {
		g.bytes += len(g.plan.Specs[i].Args)
	}
	return nil
}

// Children is how many children there are in the gather.
func (g *Gather) Children() int { return g.plan.Roots }

// Nodes is how many jobs there are in the gather, the children and all below them.
func (g *Gather) Nodes() int { return len(g.plan.Specs) }

// ArgsBytes is how many bytes of args they have.
func (g *Gather) ArgsBytes() int { return g.bytes }

// Take checks what is in the gather as [NewFanOut] does, returns it, and leaves the gather empty.
func (g *Gather) Take() (*Plan, error) {
	plan := g.plan
	g.plan, g.bytes = Plan{}, 0
	if err := plan.check(); err != nil {
		return nil, err
	}
	return &plan, nil
}
