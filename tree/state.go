package tree

// State is where a job stands. The first four are those of live jobs; the last three have left the
// live table for good, unless a dead letter is restored.
type State string

// The states of a job.
const (
	Scheduled State = "scheduled" // due later, or backing off after a failed attempt
	Ready     State = "ready"     // may be claimed now
	Running   State = "running"   // claimed by a worker
	Waiting   State = "waiting"   // a finalizer whose children are not all settled
	Completed State = "completed" // ended well; in the history
	Cancelled State = "cancelled" // ended by decision; in the history
	Dead      State = "dead"      // given up on; whole in the dead-letter queue
)

// States lists every state in the order of a job's life.
func States() []State {
	return []State{Scheduled, Ready, Running, Waiting, Completed, Cancelled, Dead}
}

// Live reports whether a job in this state is in the live table.
func (s State) Live() bool {
	return s == Scheduled || s == Ready || s == Running || s == Waiting
}
