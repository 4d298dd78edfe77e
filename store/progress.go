package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coppicehq/coppice/tree"
)

// SaveProgress records how far a running job is, 0 to 1, and what its next attempt is to know, as JSON; a nil checkpoint
// leaves the one that there is. It answers false, and changes nothing, if the claim is over. Locks: the job's row, by
// jobs_pkey.
func (s *Store) SaveProgress(ctx context.Context, worker tree.WorkerID, f Fence, fraction float64, checkpoint []byte) (bool, error) {
	var tag pgconn.CommandTag
	err := again(ctx, func() (err error) {
		tag, err = s.pool.Exec(ctx, s.sql(`
			UPDATE {s}.jobs SET progress = $4::real, checkpoint = coalesce($5::text::json, checkpoint)
			WHERE id = $1::bigint AND claim_seq = $2::bigint AND worker_id = $3::bigint`),
			int64(f.ID), f.Seq, int64(worker), fraction, orNull(string(checkpoint)))
		return err
	})
	if err != nil {
		return false, fmt.Errorf("save the progress of job %d: %w", f.ID, err)
	}
	return tag.RowsAffected() == 1, nil
}
