package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// historyAhead is how many days of history have their partition made in advance, today included.
const historyAhead = 8

// EnsureHistory makes the partitions of the history for today (UTC) and the days to come that have none, and
// answers how many it made. Many processes may call it at once. A day whose rows already went to the
// default partition keeps them there, and gets none.
//
// A new partition is made beside the history and then attached, which lets inserts into the history go on,
// except those into the default partition; it waits for no lock longer than lockWait.
func (s *Store) EnsureHistory(ctx context.Context) (int, error) {
	days, err := s.missingDays(ctx)
	if err != nil {
		return 0, fmt.Errorf("make partitions of the history: %w", err)
	}
	made := 0
	for _, day := range days {
		ok, err := s.makeDay(ctx, day)
		if err != nil {
			return made, fmt.Errorf("make the history's partition for %s: %w", day.Format(time.DateOnly), err)
		}
		if ok {
			made++
		}
	}
	return made, nil
}

// partitionName is history_YYYYMMDD.
func partitionName(day time.Time) string { return "history_" + day.Format("20060102") }

// missingDays lists the days, by the database's clock, whose partition is not there.
func (s *Store) missingDays(ctx context.Context) ([]time.Time, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT d.day FROM (
			SELECT (now() AT TIME ZONE 'UTC')::date + n AS day FROM generate_series(0, $1::integer - 1) AS n) AS d
		WHERE NOT EXISTS (
			SELECT FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
			WHERE s.nspname = $2::text AND c.relname = 'history_' || to_char(d.day, 'YYYYMMDD'))
		ORDER BY d.day`, int32(historyAhead), s.schema)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[time.Time])
}

// makeDay makes one day's partition, and answers false where somebody else did or its rows are elsewhere.
func (s *Store) makeDay(ctx context.Context, day time.Time) (bool, error) {
	from, to := day.Format(time.DateOnly), day.AddDate(0, 0, 1).Format(time.DateOnly)
	name := s.quoted + "." + pgx.Identifier{partitionName(day)}.Sanitize()
	made := false
	err := s.atomically(ctx, func(tx pgx.Tx) error {
		made = false
		// One maker at a time, whatever the day: each reads the default partition and then locks it, and two
		// that do so wait for each other. The others leave the day to the one that works.
		var mine, taken bool
		err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended($1::text, 0))`,
			s.quoted+".history").Scan(&mine)
		if err != nil || !mine {
			return err
		}
		err = tx.QueryRow(ctx, s.sql(`
			SELECT to_regclass($3::text) IS NOT NULL OR EXISTS (SELECT FROM {s}.history_default
				WHERE finished_at >= $1::text::date::timestamp AT TIME ZONE 'UTC' AND finished_at < $2::text::date::timestamp AT TIME ZONE 'UTC')`),
			from, to, name).Scan(&taken)
		if err != nil || taken {
			return err
		}
		for _, text := range []string{
			lockWait,
			`CREATE TABLE ` + name + ` (LIKE {s}.history INCLUDING DEFAULTS INCLUDING CONSTRAINTS)`,
			`ALTER TABLE {s}.history ATTACH PARTITION ` + name +
				` FOR VALUES FROM ('` + from + ` 00:00:00+00') TO ('` + to + ` 00:00:00+00')`,
		} {
			if _, err := tx.Exec(ctx, s.sql(text)); err != nil {
				return err
			}
		}
		made = true
		return nil
	})
	return made && err == nil, err
}

// lockWait bounds how long upkeep waits for a lock on a table: whoever queues for a strong lock holds up
// everybody behind.
const lockWait = `SET LOCAL lock_timeout = '2s'`
