package engine

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// JobInfo is what a handler may know of the job it runs, less its args.
type JobInfo struct {
	ID          tree.ID
	RootID      tree.ID // the tree; the job's own id if it is a root
	ParentID    tree.ID // 0: a root
	Kind        string  // as inserted: an alias stays one
	Queue       string
	Attempt     int // from 1
	MaxAttempts int
	Round       int // 0: works; n: its n-th roll-up
	Tags        []string
	CreatedAt   time.Time // by the database's clock

	meta       []byte
	client     *Client
	checkpoint []byte
	worker     *Worker // nil: not run by one
	fence      store.Fence
	skipped    string // why the guard did not let it run; "": it did
}

// Job is a job with its decoded args, as its handler gets it.
type Job[A tree.Args] struct {
	*JobInfo
	Args A
}

// Meta returns the metadata that the job was inserted with; nil: none.
func (j *JobInfo) Meta() map[string]string {
	var m map[string]string
	if len(j.meta) > 0 {
		_ = json.Unmarshal(j.meta, &m) // written by package store from such a map
	}
	return m
}

// Client returns the client of the worker that runs the job, to insert other jobs with.
func (j *JobInfo) Client() *Client { return j.client }

// LogAttrs returns the keys under which the engine logs a job: job_id, kind, queue, attempt, root_id.
func (j *JobInfo) LogAttrs() []slog.Attr {
	return []slog.Attr{
		slog.Int64("job_id", int64(j.ID)), slog.String("kind", j.Kind), slog.String("queue", j.Queue),
		slog.Int("attempt", j.Attempt), slog.Int64("root_id", int64(j.RootID)),
	}
}

type jobKey struct{}

// JobFrom returns the job whose handler ctx belongs to, or nil.
func JobFrom(ctx context.Context) *JobInfo {
	info, _ := ctx.Value(jobKey{}).(*JobInfo)
	return info
}

func newJobInfo(c *store.Claim, client *Client) *JobInfo {
	return &JobInfo{
		ID: c.ID, RootID: c.RootID, ParentID: c.ParentID, Kind: c.Kind, Queue: c.Queue, Attempt: c.Attempt,
		MaxAttempts: c.MaxAttempts, Round: c.Round, Tags: c.Tags, CreatedAt: c.CreatedAt, meta: c.Meta, client: client,
		checkpoint: c.Checkpoint, fence: c.Fence,
	}
}
