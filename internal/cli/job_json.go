package cli

import (
	"encoding/json"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// jobJSON is what "job show --json" answers. Durations are in seconds.
type jobJSON struct {
	ID             tree.ID         `json:"id"`
	Place          store.Place     `json:"place"`
	Tree           tree.ID         `json:"tree"`
	Parent         tree.ID         `json:"parent,omitempty"`
	Kind           string          `json:"kind"`
	Queue          string          `json:"queue"`
	State          tree.State      `json:"state"`
	Held           bool            `json:"held"`
	Priority       int             `json:"priority"`
	CreatedAt      time.Time       `json:"created_at"`
	RunAt          time.Time       `json:"run_at"`
	StartedAt      *time.Time      `json:"started_at"`
	StalledAt      *time.Time      `json:"stalled_at"`
	FailedAt       *time.Time      `json:"failed_at"`
	FinishedAt     *time.Time      `json:"finished_at"`
	Attempt        int             `json:"attempt"`
	MaxAttempts    int             `json:"max_attempts"`
	Lost           int             `json:"lost"`
	Snoozes        int             `json:"snoozes"`
	Worker         tree.WorkerID   `json:"worker,omitempty"`
	TimeoutSeconds float64         `json:"timeout_seconds"` // 0: the worker's default; -1: none
	Round          int             `json:"round"`
	Sealed         bool            `json:"sealed"`
	Closing        string          `json:"closing,omitempty"`
	ClosingBy      string          `json:"closing_by,omitempty"`
	ClosingWhy     string          `json:"closing_why,omitempty"`
	SealBy         *time.Time      `json:"seal_by,omitempty"`
	DeadlineAt     *time.Time      `json:"deadline_at,omitempty"`
	Progress       *float32        `json:"progress,omitempty"`
	Checkpoint     json.RawMessage `json:"checkpoint,omitempty"`
	Skipped        bool            `json:"skipped,omitempty"`
	Actor          string          `json:"actor,omitempty"`
	Group          string          `json:"group,omitempty"`
	Limit          string          `json:"limit,omitempty"`
	OnDead         tree.DeadPolicy `json:"on_dead"`
	Children       countersJSON    `json:"children"`
	Key            string          `json:"key,omitempty"`
	DedupKey       string          `json:"dedup_key,omitempty"`
	DroppedKey     string          `json:"dropped_key,omitempty"`
	Tags           []string        `json:"tags"`
	Args           json.RawMessage `json:"args"`
	Meta           json.RawMessage `json:"meta,omitempty"`
	Result         json.RawMessage `json:"result,omitempty"`
	Reason         tree.Reason     `json:"reason,omitempty"`
	Error          string          `json:"error,omitempty"`
	Failures       []failureJSON   `json:"failures"` // the newest first
}

type failureJSON struct {
	At      time.Time     `json:"at"`
	Attempt int           `json:"attempt"`
	Round   int           `json:"round"`
	Outcome tree.Outcome  `json:"outcome"`
	Worker  tree.WorkerID `json:"worker,omitempty"`
	Error   string        `json:"error"`
	Stack   string        `json:"stack,omitempty"`
}

// countersJSON is what a parent knows of its children.
type countersJSON struct {
	Pending   int `json:"pending"`
	Completed int `json:"completed"`
	Dead      int `json:"dead"`
	Cancelled int `json:"cancelled"`
	Removed   int `json:"removed"`
}

func countersOf(c store.Counters) countersJSON {
	return countersJSON{c.Pending, c.Completed, c.Dead, c.Cancelled, c.Removed}
}

func jobOf(j *store.JobRow, failed []store.AttemptError) jobJSON {
	out := jobJSON{
		ID: j.ID, Place: j.Place, Tree: j.RootID, Parent: j.ParentID, Kind: j.Kind, Queue: j.Queue, State: j.State,
		Held: j.Held, Priority: j.Priority, CreatedAt: j.CreatedAt, RunAt: j.RunAt, StartedAt: j.StartedAt,
		StalledAt: j.StalledAt, FailedAt: j.FailedAt, FinishedAt: j.FinishedAt, Attempt: j.Attempt,
		MaxAttempts: j.MaxAttempts, Lost: j.Lost, Snoozes: j.Snoozes, Worker: j.WorkerID,
		TimeoutSeconds: j.Timeout.Seconds(), Round: j.Round, Sealed: j.Sealed, Closing: j.Closing, ClosingBy: j.ClosingBy, ClosingWhy: j.ClosingWhy,
		SealBy: j.SealBy, DeadlineAt: j.DeadlineAt, Progress: j.Progress, Checkpoint: j.Checkpoint, Skipped: j.Skipped,
		Actor: j.Actor, Group: j.GroupKey, Limit: j.LimitKey, OnDead: j.OnDead,
		Children: countersOf(j.Counters), Key: j.ChildKey, DedupKey: j.DedupKey, DroppedKey: j.DroppedKey,
		Tags: append([]string{}, j.Tags...), Args: j.Args, Meta: j.Meta, Result: j.Result, Reason: j.Reason,
		Error: j.Error, Failures: []failureJSON{},
	}
	if j.Timeout == tree.NoTimeout {
		out.TimeoutSeconds = -1
	}
	for _, f := range failed {
		out.Failures = append(out.Failures, failureJSON{f.At, f.Attempt, f.Round, f.Outcome, f.WorkerID, f.Error, f.Stack})
	}
	return out
}
