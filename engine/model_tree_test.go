package engine_test

import (
	"sync/atomic"

	"pgregory.net/rapid"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// plant is one job of the model: what it will do is decided before it is inserted, so that how it ends follows from the
// tree alone.
type plant struct {
	number  int
	queue   string
	policy  tree.DeadPolicy
	script  []string // what its attempts do, in turn; the last act ends it
	budget  int      // attempts
	leafish bool     // works; else finalizes its kids, of which there may be none
	kids    []*plant
	parent  *plant

	calls atomic.Int32 // handler calls so far
	ends  atomic.Int32 // calls that ended it
	early atomic.Int32 // calls of a finalizer before its kids had ended
}

// ending acts, by the state that they lead to.
func endsAs(act string) tree.State {
	switch act {
	case "complete", "silent":
		return tree.Completed
	case "cancel":
		return tree.Cancelled
	}
	return tree.Dead // fatal, and whatever spends the last attempt
}

// fate is how a plant ends.
type fate struct {
	State  tree.State
	Counts store.Counters
	Value  int // of its result, which is the sum over what completed below it
	Result bool
	Calls  int // of its handler
}

// fates works out how every plant of a tree ends.
func (p *plant) fates(into map[*plant]fate) fate {
	var f fate
	stuck := false
	f.Value = p.number
	for _, kid := range p.kids {
		k := kid.fates(into)
		switch k.State {
		case tree.Waiting:
			f.Counts.Pending++
			stuck = true
		case tree.Completed:
			f.Counts.Completed++
			if k.Result {
				f.Value += k.Value
			}
		case tree.Cancelled:
			f.Counts.Cancelled++
		case tree.Dead:
			f.Counts.Dead++
			stuck = stuck || p.policy == tree.Wait
		}
	}
	switch last := p.script[len(p.script)-1]; {
	case stuck:
		f.State = tree.Waiting
	default:
		f.State, f.Calls = endsAs(last), len(p.script)
		f.Result = last == "complete"
	}
	into[p] = f
	return f
}

// all lists a tree in the order in which it is inserted.
func (p *plant) all() []*plant {
	out := []*plant{p}
	for _, kid := range p.kids {
		out = append(out, kid.all()...)
	}
	return out
}

// node describes the plant to the engine.
func (p *plant) node(backoff tree.Backoff) *tree.Node {
	n := tree.New(plantArgs{p.number}, tree.Queue(p.queue), tree.OnDead(p.policy), tree.MaxAttempts(p.budget), tree.WithBackoff(backoff))
	if p.leafish {
		return n
	}
	kids := make([]*tree.Node, len(p.kids))
	for i, kid := range p.kids {
		kids[i] = kid.node(backoff)
	}
	return n.Add(kids...)
}

// drawPlant draws a tree of at most depth levels below its root. Most jobs complete, so that most finalizers run.
func drawPlant(t *rapid.T, g *garden, depth int) *plant {
	p := g.plant()
	p.queue = rapid.SampledFrom([]string{"oak", "ash", "elm"}).Draw(t, "queue")
	p.policy = rapid.SampledFrom([]tree.DeadPolicy{tree.Wait, tree.Proceed, tree.Proceed}).Draw(t, "policy")
	spent := 0
	for range rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, 3}).Draw(t, "detours") {
		act := rapid.SampledFrom([]string{"fail", "panic", "retry after", "snooze", "snooze a little"}).Draw(t, "act")
		p.script = append(p.script, act)
		if act == "fail" || act == "panic" || act == "retry after" {
			spent++
		}
	}
	end := rapid.SampledFrom([]string{
		"complete", "complete", "complete", "complete", "complete", "complete", "silent", "cancel", "fatal", "spent", "spent by panic",
	}).Draw(t, "end")
	p.script = append(p.script, end)
	p.budget = spent + 1
	if end != "spent" && end != "spent by panic" {
		p.budget += rapid.IntRange(0, 3).Draw(t, "budget")
	}
	p.leafish = depth == 0 || rapid.IntRange(0, 2).Draw(t, "leaf") == 0
	if !p.leafish {
		for range rapid.SampledFrom([]int{0, 1, 1, 2, 2, 3, 5}).Draw(t, "kids") {
			kid := drawPlant(t, g, depth-1)
			kid.parent = p
			p.kids = append(p.kids, kid)
		}
	}
	return p
}
