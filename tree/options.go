package tree

import (
	"slices"
	"time"
)

// Option sets one property of a job. Options are checked together when the node is inserted; of two for
// one property the later wins.
type Option func(*Spec)

// Queue names the queue the job waits in: 1 to [MaxQueueBytes] bytes. Default: [DefaultQueue].
func Queue(name string) Option { return func(s *Spec) { s.Queue = name } }

// Priority orders a queue: lower runs first, [MinPriority] to [MaxPriority]. Default: 0.
func Priority(p int) Option { return func(s *Spec) { s.Priority = p } }

// Delay makes the job due d after its insert, by the database's clock. Zero: at once.
func Delay(d time.Duration) Option {
	return func(s *Spec) { s.Delay, s.DueAt = d, time.Time{} }
}

// At makes the job due at t. A time that has passed means at once; the zero time too.
func At(t time.Time) Option {
	return func(s *Spec) { s.DueAt, s.Delay = t, 0 }
}

// MaxAttempts limits how often the job is started, 1 to [MaxAttemptLimit], before it goes to the
// dead-letter queue. Default: [DefaultMaxAttempts]. Snoozes, releases and shutdowns cost nothing.
func MaxAttempts(n int) Option { return func(s *Spec) { s.MaxAttempts = n } }

// Timeout limits one attempt: its context ends then, with [engine.ErrTimeout] as the cause. [NoTimeout]
// lifts the limit. Default: that of the kind's registration, then [DefaultTimeout].
func Timeout(d time.Duration) Option { return func(s *Spec) { s.Timeout = d } }

// MaxAge is the retry budget in time: a retry that would be due later than d after the job's insert
// (or its restore) is not made, and the job goes to the dead-letter queue. Zero: no such limit.
func MaxAge(d time.Duration) Option { return func(s *Spec) { s.MaxAge = d } }

// WithBackoff spaces the job's attempts. Default: that of the kind's registration, then
// [DefaultBackoff].
func WithBackoff(b Backoff) Option { return func(s *Spec) { s.Backoff = &b } }

// Dedup gives the job a key that no other live job may hold: 1 to [MaxKeyBytes] bytes, one space of keys
// for a schema. The key lives exactly as long as its job is live: a job that ended, or is dead, holds
// none.
func Dedup(key string) Option {
	return func(s *Spec) { s.DedupKey, s.hasDedup = key, true }
}

// OnDuplicate says what becomes of the node if a live job holds its dedup key. Default: [Ignore].
func OnDuplicate(p DuplicatePolicy) Option { return func(s *Spec) { s.OnDuplicate = p } }

// Key names a child among its siblings: 1 to [MaxKeyBytes] bytes, unique under its parent.
func Key(key string) Option {
	return func(s *Spec) { s.ChildKey, s.hasKey = key, true }
}

// Group puts the job into a group: 1 to [MaxKeyBytes] bytes, one space of groups for a schema. Jobs of one group
// run one at a time, across all processes and queues, in the order of their insert; one that is retried, or due
// later, keeps its place and holds up those behind it. A finalizer that waits for its children does not.
func Group(key string) Option {
	return func(s *Spec) { s.GroupKey, s.hasGroup = key, true }
}

// Limit makes the job count against the limits that are set for the key (how many may run, how many may start
// a second): 1 to [MaxKeyBytes] bytes, one space of keys for a schema. A key without limits limits nothing.
func Limit(key string) Option {
	return func(s *Spec) { s.LimitKey, s.hasLimit = key, true }
}

// Deadline cancels what is left of the job, and of everything below it, d after its insert. Zero: never.
// On a root it is the deadline of the tree.
func Deadline(d time.Duration) Option { return func(s *Spec) { s.Deadline = d } }

// Open lets children be added to the job after its insert (engine.Client.AddChildren), until it is sealed: it does not
// run before. An open job that is not sealed within d is given up: it and what is left below it go to the dead-letter
// queue as [ReasonNeverSealed]. Zero is [DefaultSealBy]; at most [MaxDuration]. An open job is a finalizer.
func Open(d time.Duration) Option {
	return func(s *Spec) {
		if s.SealBy = d; d == 0 {
			s.SealBy = DefaultSealBy
		}
	}
}

// Tags adds free words to the job: at most [MaxTags], each 1 to [MaxTagBytes] bytes.
func Tags(tags ...string) Option {
	return func(s *Spec) { s.Tags = append(slices.Clip(s.Tags), tags...) }
}

// Meta adds metadata that travels with the job and that Coppice does not read: at most [MaxMetaBytes] as
// JSON in all.
func Meta(key, value string) Option {
	return func(s *Spec) {
		m := make(map[string]string, len(s.Meta)+1)
		for k, v := range s.Meta {
			m[k] = v
		}
		m[key] = value
		s.Meta = m
	}
}

// KeepFor says how long the job's row stays in the history after it completes or is cancelled. Zero keeps
// nothing. Default: the queue's retention, then [DefaultHistoryRetention].
func KeepFor(d time.Duration) Option { return func(s *Spec) { s.KeepFor = &d } }

// OnDead says what the finalizer does about dead children. Default: [Wait].
func OnDead(p DeadPolicy) Option { return func(s *Spec) { s.OnDead = p } }

// Tolerate lets up to n dead children count as settled: 0 to [MaxNodes]. Default: 0. With more dead children the
// finalizer waits as its policy says; with fewer it runs, and can list them. Of Tolerate and
// [TolerateRatio] the more tolerant decides.
func Tolerate(n int) Option { return func(s *Spec) { s.Tolerate = n } }

// TolerateRatio lets up to the share x of all children be dead and count as settled: 0 to 1, kept to six digits.
// Default: 0. The share is of all the children there are when the last of them settles.
func TolerateRatio(x float64) Option { return func(s *Spec) { s.TolerateRatio = x } }

// OnLost says what becomes of the job when its worker dies. Default: [LostRetry].
func OnLost(p LostPolicy) Option { return func(s *Spec) { s.OnLost = p } }
