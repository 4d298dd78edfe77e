package tree

import (
	"encoding/json"
	"time"
)

// Spec is one row to insert: a node after its options were applied, its args encoded and everything
// checked. Package store reads it; users describe jobs with [New].
type Spec struct {
	Parent        int               // index of the parent in the plan; -1 for a root
	Root          int               // index of the root in the plan
	Children      int               // how many children the plan holds
	Finalizes     bool              // has children, or would have had
	Kind          string            // 1 to MaxKindBytes bytes
	Args          json.RawMessage   // at most MaxArgsBytes
	Queue         string            // 1 to MaxQueueBytes bytes
	Priority      int               // lower first
	Delay         time.Duration     // due so long after the insert; 0: at once
	DueAt         time.Time         // due then; zero: Delay decides
	MaxAttempts   int               // 1 to MaxAttemptLimit
	Timeout       time.Duration     // 0: the worker decides; NoTimeout: none
	MaxAge        time.Duration     // 0: none
	Backoff       *Backoff          // nil: the worker decides; else without zero fields but Jitter
	DedupKey      string            // "": none
	OnDuplicate   DuplicatePolicy   // Ignore, Replace or Skip
	ChildKey      string            // "": none
	Tags          []string          // at most MaxTags; nil: none
	Meta          map[string]string // at most MaxMetaBytes as JSON; nil: none
	KeepFor       *time.Duration    // nil: the queue decides; 0: keep nothing
	OnDead        DeadPolicy        // Wait, Proceed or Fail
	Tolerate      int               // dead children that count as settled, 0 to MaxNodes
	TolerateRatio float64           // or such a share of all children, 0 to 1
	OnLost        LostPolicy        // LostRetry or LostDeadLetter
	GroupKey      string            // jobs of one group run one at a time, in order; "": none
	LimitKey      string            // jobs of one key share a limit; "": none
	Deadline      time.Duration     // what is left of the job and all below it is cancelled so long after the insert; 0: never
	SealBy        time.Duration     // open to more children for so long at most; 0: sealed

	ordinal          int // among its siblings, or among the plan's roots
	hasDedup, hasKey bool
	hasGroup         bool
	hasLimit         bool
	child            bool // has a parent, in the plan or in the database
}
