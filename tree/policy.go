package tree

// DeadPolicy says what a finalizer does when a child goes to the dead-letter queue.
type DeadPolicy string

// The dead-child policies.
const (
	// Wait keeps the finalizer suspended until every dead child is retried or removed: its tree
	// shows as stalled, with the time since when. It is the default.
	Wait DeadPolicy = "wait"
	// Proceed counts a dead child as settled: the finalizer runs with what there is, and can list
	// the dead through its Children.
	Proceed DeadPolicy = "proceed"
	// Fail gives the finalizer up with the child: what is left of its subtree is stopped and goes to the
	// dead-letter queue with it, as [ReasonFailFast], so that one retry brings all of it back. A child that
	// runs is asked to stop, and keeps its result if it completes all the same.
	Fail DeadPolicy = "fail"
)

func (p DeadPolicy) valid() bool { return p == Wait || p == Proceed || p == Fail }

// DuplicatePolicy says what becomes of a node whose dedup key a live job holds.
type DuplicatePolicy string

// The policies for held dedup keys.
const (
	// Ignore inserts nothing, and answers with the live job. A tree with such a node is refused whole. It is the default.
	Ignore DuplicatePolicy = "ignore"
	// Replace puts what the node says in the place of the live job, which keeps its id and begins anew: no attempts, and a new
	// age budget. One that runs, is being closed, or has or had children is left as it is. For jobs that stand alone.
	Replace DuplicatePolicy = "replace"
	// Skip leaves the node out of its tree, with everything below it: its parent has a child fewer. A root that is skipped
	// takes its tree with it.
	Skip DuplicatePolicy = "skip"
)

func (p DuplicatePolicy) valid() bool { return p == Ignore || p == Replace || p == Skip }

// LostPolicy says what becomes of a running job whose worker died.
type LostPolicy string

// The policies for lost jobs.
const (
	// LostRetry makes the job ready again while its attempts last. It is the default.
	LostRetry LostPolicy = "retry"
	// LostDeadLetter sends the job to the dead-letter queue as lost: for work that must not be
	// repeated without a person's decision.
	LostDeadLetter LostPolicy = "dead_letter"
)

func (p LostPolicy) valid() bool { return p == LostRetry || p == LostDeadLetter }
