package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/coppicehq/coppice/tree"
)

// SetProgress records how far the job is, from 0 to 1, and a checkpoint: a small value, at most
// [tree.MaxCheckpointBytes] as JSON, that others can read with the job's row and that the job's next attempt, or its
// next round, gets from [JobInfo.Checkpoint]. A nil checkpoint leaves the one that there is. Both stay with the job wherever it
// goes. Each call is one write to the database, which has committed when it returns.
//
// Errors: what is wrong with the values; [ErrClaimLost], when the job is no longer this worker's: nothing was written then, and
// the handler's context ends; the database's.
func (j *JobInfo) SetProgress(ctx context.Context, fraction float64, checkpoint any) error {
	if j.worker == nil {
		return errors.New("coppice: progress: the job is not run by a worker")
	}
	if !(fraction >= 0 && fraction <= 1) { // written so that NaN fails
		return fmt.Errorf("coppice: progress %v is outside 0 to 1", fraction)
	}
	var raw []byte
	if checkpoint != nil {
		var err error
		if raw, err = json.Marshal(checkpoint); err != nil {
			return fmt.Errorf("coppice: the checkpoint does not encode as JSON: %w", err)
		}
		if err = tree.CheckJSON(raw, tree.MaxCheckpointBytes); err == nil {
			err = tree.CheckStrings(checkpoint, raw)
		}
		if err != nil {
			return fmt.Errorf("coppice: the checkpoint cannot be stored: %w", err)
		}
	}
	// Rounded here to what is stored: PostgreSQL refuses, as text, a number that is too small for a real.
	held, err := j.client.store.SaveProgress(ctx, j.worker.ID(), j.fence, float64(float32(fraction)), raw)
	if err != nil {
		return err
	}
	if !held {
		j.worker.held.lose(j.fence)
		return ErrClaimLost
	}
	return nil
}

// Checkpoint decodes into into what an earlier attempt of the job recorded last with [JobInfo.SetProgress], and answers
// whether there was anything: what this attempt records is for the next.
func (j *JobInfo) Checkpoint(into any) (bool, error) {
	if len(j.checkpoint) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(j.checkpoint, into); err != nil {
		return false, fmt.Errorf("coppice: decode the checkpoint of job %d: %w", j.ID, err)
	}
	return true, nil
}
