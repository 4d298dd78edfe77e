package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// makeQueues makes the rows of queues that have none, in ascending order of name, by queues_pkey.
func (s *Store) makeQueues(ctx context.Context, tx pgx.Tx, names []string) error {
	names = slices.Sorted(slices.Values(names))
	_, err := tx.Exec(ctx, s.sql(`
		INSERT INTO {s}.queues (name) SELECT q FROM unnest($1::text[]) AS q ORDER BY q COLLATE "C"
		ON CONFLICT (name) DO NOTHING`), names)
	return err
}

// QueueSettings is what a queue's row says to its workers.
type QueueSettings struct {
	KeepHistory time.Duration // how long finished jobs are kept; zero: not at all
	Paused      bool          // nothing is claimed from it
}

// Settings reads the settings of queues. A queue without a row has the defaults.
func (s *Store) Settings(ctx context.Context, names []string) (map[string]QueueSettings, error) {
	out := make(map[string]QueueSettings, len(names))
	for _, n := range names {
		out[n] = QueueSettings{KeepHistory: tree.DefaultHistoryRetention}
	}
	// By queues_pkey; locks nothing.
	rows, err := s.pool.Query(ctx, s.sql(`
		SELECT name, (extract(epoch FROM history_retention) * 1000)::bigint, paused_at IS NOT NULL FROM {s}.queues
		WHERE name = ANY ($1::text[])`), names)
	if err != nil {
		return nil, fmt.Errorf("read queues: %w", err)
	}
	var name string
	var keepMillis *int64
	var paused bool
	_, err = pgx.ForEachRow(rows, []any{&name, &keepMillis, &paused}, func() error {
		q := out[name]
		q.Paused = paused
		if keepMillis != nil {
			q.KeepHistory = time.Duration(*keepMillis) * time.Millisecond
		}
		out[name] = q
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read queues: %w", err)
	}
	return out, nil
}
