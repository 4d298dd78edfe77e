package tree

// NewPlanOf is NewPlan with a limit of its own to the number of nodes.
func NewPlanOf(most int, nodes ...*Node) (*Plan, error) {
	return (&Plan{Roots: len(nodes)}).fill(most, nodes)
}
