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

// EnsureQueues makes the rows of queues that have none.
func (s *Store) EnsureQueues(ctx context.Context, names []string) error {
	err := s.atomically(ctx, func(tx pgx.Tx) error { return s.makeQueues(ctx, tx, names) })
	if err != nil {
		return fmt.Errorf("make queues: %w", err)
	}
	return nil
}

// HistoryRetentions answers how long each of the queues keeps finished jobs; zero: not at all. A queue without
// a row, or with none set, has the default.
func (s *Store) HistoryRetentions(ctx context.Context, names []string) (map[string]time.Duration, error) {
	out := make(map[string]time.Duration, len(names))
	for _, n := range names {
		out[n] = tree.DefaultHistoryRetention
	}
	rows, err := s.pool.Query(ctx, s.sql(`
		SELECT name, (extract(epoch FROM history_retention) * 1000)::bigint FROM {s}.queues
		WHERE name = ANY ($1::text[]) AND history_retention IS NOT NULL`), names)
	if err != nil {
		return nil, fmt.Errorf("read retentions: %w", err)
	}
	var name string
	var ms int64
	_, err = pgx.ForEachRow(rows, []any{&name, &ms}, func() error {
		out[name] = time.Duration(ms) * time.Millisecond
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read retentions: %w", err)
	}
	return out, nil
}
