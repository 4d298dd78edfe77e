package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// By says who does something to jobs or queues, and why, for the audit.
type By struct {
	Actor  string // a person or a program; at most MaxActorBytes, never empty
	Reason string // at most MaxReasonBytes; "": not said
}

// Limits of By, in bytes.
const (
	MaxActorBytes  = 256
	MaxReasonBytes = 2_048
)

func (b By) check() error {
	switch {
	case b.Actor == "":
		return fmt.Errorf("coppice: the audit needs an actor")
	case len(b.Actor) > MaxActorBytes || tree.CleanText(b.Actor, MaxActorBytes) != b.Actor:
		return fmt.Errorf("coppice: the actor is longer than %d bytes, or not text", MaxActorBytes)
	case len(b.Reason) > MaxReasonBytes || tree.CleanText(b.Reason, MaxReasonBytes) != b.Reason:
		return fmt.Errorf("coppice: the reason is longer than %d bytes, or not text", MaxReasonBytes)
	}
	return nil
}

// PauseQueue keeps all workers from claiming from a queue until it is resumed. Jobs that run go on; workers give
// back what they have claimed and not started, at no cost, once they hear of it: at once by LISTEN, with
// their next beat without. It answers false, and changes nothing, if the queue was paused already.
// Locks: the queue's row.
func (s *Store) PauseQueue(ctx context.Context, name string, by By) (bool, error) {
	return s.switchQueue(ctx, name, by, "queue_pause", `
		INSERT INTO {s}.queues AS q (name, paused_at, paused_by) VALUES ($1::text, now(), $2::text)
		ON CONFLICT (name) DO UPDATE SET paused_at = now(), paused_by = $2::text WHERE q.paused_at IS NULL
		RETURNING true`, name, by.Actor)
}

// ResumeQueue undoes a pause. It answers false, and changes nothing, if the queue was not paused. Locks: the
// queue's row.
func (s *Store) ResumeQueue(ctx context.Context, name string, by By) (bool, error) {
	return s.switchQueue(ctx, name, by, "queue_resume", `
		UPDATE {s}.queues SET paused_at = NULL, paused_by = NULL WHERE name = $1::text AND paused_at IS NOT NULL
		RETURNING true`, name)
}

// switchQueue runs a change of one queue's row, writes it to the audit if it changed anything, and tells workers.
func (s *Store) switchQueue(ctx context.Context, name string, by By, action, change string, args ...any) (bool, error) {
	if err := tree.CheckQueue(name); err != nil {
		return false, fmt.Errorf("coppice: queue %w", err)
	}
	if err := by.check(); err != nil {
		return false, err
	}
	changed := false
	err := s.atomically(ctx, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, s.sql(change), args...).Scan(&changed)
		if errors.Is(err, pgx.ErrNoRows) {
			changed = false
			return nil
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, s.sql(`
			INSERT INTO {s}.audit (action, queue, actor, reason) VALUES ($1::text, $2::text, $3::text, $4::text)`),
			action, name, by.Actor, orNull(by.Reason))
		return err
	})
	if err != nil {
		return false, fmt.Errorf("%s %q: %w", action, name, err)
	}
	if !changed {
		return false, nil
	}
	// The change is made; a hint that does not arrive costs a beat.
	_, _ = s.pool.Exec(ctx, `SELECT pg_notify($1::text, $2::text)`, s.settingsChannel(), name)
	return true, nil
}
