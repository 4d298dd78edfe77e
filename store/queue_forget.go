package store

import (
	"context"
	"fmt"
)

// forgetQueueSQL locks the one row by queues_pkey. That nobody uses the queue costs a pass over jobs and one
// probe of dead_jobs_queue.
const forgetQueueSQL = `DELETE FROM {s}.queues WHERE name = $1
	AND paused_at IS NULL AND history_retention IS NULL AND dead_retention IS NULL AND max_running IS NULL
	AND NOT EXISTS (SELECT FROM {s}.jobs WHERE queue = $1)
	AND NOT EXISTS (SELECT FROM {s}.dead_jobs WHERE queue = $1)`

// ForgetQueue removes the row of a queue that was made for one purpose and has served it. It stays if the queue
// has a live job, a dead letter or a setting. A later insert makes it again.
func (s *Store) ForgetQueue(ctx context.Context, name string) error {
	if _, err := s.pool.Exec(ctx, s.sql(forgetQueueSQL), name); err != nil {
		return fmt.Errorf("forget queue %q: %w", name, err)
	}
	return nil
}
