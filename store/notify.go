package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Channel is the name under which wake-ups of a schema are sent; the payload is a queue's name. PostgreSQL
// takes 63 bytes, so a long schema is named by its hash.
func (s *Store) Channel() string {
	name := "coppice:" + s.schema
	if len(name) > 63 {
		sum := sha256.Sum256([]byte(s.schema))
		name = "coppice#" + hex.EncodeToString(sum[:])[:48]
	}
	return name
}

// Notify hints to every listening worker that the queues may have jobs.
func (s *Store) Notify(ctx context.Context, queues []string) error {
	_, err := s.pool.Exec(ctx, `SELECT pg_notify($1::text, q) FROM unnest($2::text[]) AS q`, s.Channel(), queues)
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// Listen hands the names of queues that got work to wake until ctx ends or the connection breaks, on a
// connection of its own that is made with the pool's settings. ready is called once it listens.
func (s *Store) Listen(ctx context.Context, ready func(), wake func(queue string)) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig.Copy())
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{s.Channel()}.Sanitize()); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ready()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		wake(n.Payload)
	}
}
