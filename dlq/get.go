package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// ErrNotFound is in the chain of the error for a job that is not in the dead-letter queue.
var ErrNotFound = errors.New("not in the dead-letter queue")

// MaxErrors is how many failed attempts [Letters.Get] reads at most: the newest.
const MaxErrors = store.MaxPage

// Letter is one dead letter, whole.
type Letter struct {
	// JobRow is everything that is stored about the job. Args are the bytes that were inserted.
	store.JobRow
	// DeadFor is how long ago it died, by the database's clock.
	DeadFor time.Duration
	// Errors are its failed attempts, newest first and MaxErrors at most, those of its lives before it was
	// restored included.
	Errors []store.AttemptError
}

// Get reads one dead letter. The error has [ErrNotFound] in its chain when id is not in the dead-letter queue,
// and says where it is instead.
func (l *Letters) Get(ctx context.Context, id tree.ID) (*Letter, error) {
	job, err := l.store.Job(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("job %d: %w, and neither live nor in the history", id, ErrNotFound)
	case err != nil:
		return nil, err
	case job.Place != store.PlaceDead || job.FailedAt == nil:
		return nil, fmt.Errorf("job %d: %w: it is %s", id, ErrNotFound, job.State)
	}
	failed, err := l.store.Errors(ctx, id, MaxErrors)
	if err != nil {
		return nil, err
	}
	// The database took both ages from one now().
	died := job.FailedAt.Sub(job.CreatedAt)
	return &Letter{JobRow: *job, DeadFor: job.Age - died, Errors: failed}, nil
}
