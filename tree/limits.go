package tree

import "time"

// Limits, checked before anything is written. Sizes are bytes of UTF-8 as stored.
const (
	MaxArgsBytes       = 1 << 20   // of a job's args as JSON: 1 MiB
	MaxResultBytes     = 256 << 10 // of a job's result as JSON, unless the worker is configured otherwise: 256 KiB
	MaxMetaBytes       = 16 << 10  // of a job's metadata as JSON: 16 KiB
	MaxCheckpointBytes = 64 << 10  // of a job's checkpoint as JSON: 64 KiB
	MaxJSONDepth       = 500       // nested arrays and objects in args, results and metadata
	MaxKindBytes       = 128       // of a kind
	MaxQueueBytes      = 128       // of a queue's name
	MaxKeyBytes        = 512       // of a dedup key, a child's key, a group or a limit's key
	MaxTagBytes        = 128       // of one tag
	MaxTags            = 64        // tags of a job
	MaxNodes           = 1_000_000 // jobs in one call to insert
	MaxDepth           = 10_000    // levels of a tree in one call to insert
	MaxAttemptLimit    = 10_000    // the most that MaxAttempts takes
	MinPriority        = -32_768   // first to run
	MaxPriority        = 32_767    // last to run
)

// MaxDuration is the longest delay, timeout, age or backoff that a job takes: ten years.
const MaxDuration = 10 * 365 * 24 * time.Hour

// Defaults of a job's options.
const (
	DefaultQueue            = "default"
	DefaultPriority         = 0
	DefaultMaxAttempts      = 10
	DefaultTimeout          = 10 * time.Minute // of one attempt
	DefaultHistoryRetention = 7 * 24 * time.Hour
	DefaultSealBy           = 24 * time.Hour // of an open job
)

// NoTimeout is the timeout of an attempt that may run for as long as it likes.
const NoTimeout time.Duration = -1
