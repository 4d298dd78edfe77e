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
func (s *Store) Channel() string { return s.channel("coppice") }

// settingsChannel is where changes of a queue's row are told; the payload is the queue's name.
func (s *Store) settingsChannel() string { return s.channel("coppice_queue") }

func (s *Store) channel(prefix string) string {
	const most = 63
	name := prefix + ":" + s.schema
	if len(name) > most {
		sum := sha256.Sum256([]byte(s.schema))
		name = (prefix + "#" + hex.EncodeToString(sum[:]))[:min(most, len(prefix)+1+48)]
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
// connection of its own that is made with the pool's settings. ready is called once it listens; changed is
// called when a queue's settings have changed.
func (s *Store) Listen(ctx context.Context, ready func(), wake, changed func(queue string)) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig.Copy())
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	settings := s.settingsChannel()
	for _, channel := range []string{s.Channel(), settings} {
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	ready()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		if n.Channel == settings {
			changed(n.Payload)
			continue
		}
		wake(n.Payload)
	}
}
