package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
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

// Hints are what a listener does about each kind of hint. It is called on the listening goroutine.
type Hints struct {
	Ready   func()                     // called once it listens
	Wake    func(queue string)         // a queue got work
	Changed func(queue string)         // a queue's settings have changed
	Told    func(worker tree.WorkerID) // there is something for a worker in [Store.Told]
}

// Listen hands hints on until ctx ends or the connection breaks, on a connection of its own that is made with the
// pool's settings.
func (s *Store) Listen(ctx context.Context, on Hints) error {
	return s.listen(ctx, on.Ready, map[string]func(string){
		s.Channel():         on.Wake,
		s.settingsChannel(): on.Changed,
		s.toldChannel(): func(payload string) {
			if id, err := strconv.ParseInt(payload, 10, 64); err == nil {
				on.Told(tree.WorkerID(id))
			}
		},
	})
}

// listen hands the payloads of channels to whom they are for.
func (s *Store) listen(ctx context.Context, ready func(), on map[string]func(payload string)) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig.Copy())
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for channel := range on {
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
		on[n.Channel](n.Payload)
	}
}
