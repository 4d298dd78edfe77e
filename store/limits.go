package store

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coppicehq/coppice/tree"
)

// Limit is what jobs of one key (tree.Limit) may do together, across all processes and queues.
type Limit struct {
	// MaxRunning is how many of them may run at a time; 0: any number.
	MaxRunning int
	// Rate is how many of them may be started a second, over time; 0: any number.
	Rate float64
	// Burst is how many may be started at once after a rest, 1 or more; 0: one second's worth, at least 1.
	Burst float64
}

// Limits of a Limit.
const (
	MaxLimitRunning = 1_000_000
	MaxLimitRate    = 1_000_000 // a second; its least is one in a day
)

func (l *Limit) check() error {
	const leastRate = 1.0 / 86_400
	switch {
	case l.MaxRunning < 0 || l.MaxRunning > MaxLimitRunning:
		return fmt.Errorf("coppice: max running %d is outside 0 to %d", l.MaxRunning, MaxLimitRunning)
	case l.Rate != 0 && !(l.Rate >= leastRate && l.Rate <= MaxLimitRate): // written so that NaN fails
		return fmt.Errorf("coppice: rate %v is outside one a day to %d a second", l.Rate, MaxLimitRate)
	case l.Burst != 0 && !(l.Burst >= 1 && l.Burst <= MaxLimitRate):
		return fmt.Errorf("coppice: burst %v is outside 1 to %d", l.Burst, MaxLimitRate)
	case l.MaxRunning == 0 && l.Rate == 0:
		return fmt.Errorf("coppice: a limit needs a number of running jobs or a rate; to lift one, delete it")
	}
	if l.Burst == 0 {
		l.Burst = math.Max(1, l.Rate)
	}
	return nil
}

// SetLimit limits the jobs of a key from the next claim on; what runs goes on. The bucket of a rate begins full. Locks: the limit's
// row; then, in chunks, the parked jobs of the key by ascending id, which look for room again.
func (s *Store) SetLimit(ctx context.Context, key string, limit Limit, by By) error {
	if err := limit.check(); err != nil {
		return err
	}
	_, err := s.changeLimit(ctx, key, by, "limit_set", `
		INSERT INTO {s}.limits AS l (key, max_running, rate, burst, tokens) VALUES ($1::text, $2::integer, $3::double precision, $4::double precision, $4::double precision)
		ON CONFLICT (key) DO UPDATE SET max_running = $2::integer, rate = $3::double precision, burst = $4::double precision,
			tokens = CASE WHEN l.rate IS NULL THEN $4::double precision ELSE least($4::double precision, `+bucketNow+`) END,
			refilled_at = clock_timestamp(), retry_at = NULL, retry_queue = NULL`,
		orNullInt(limit.MaxRunning), orNullFloat(limit.Rate), limit.Burst)
	return err
}

// DeleteLimit lifts the limit of a key. It answers false if there was none. Locks: as SetLimit.
func (s *Store) DeleteLimit(ctx context.Context, key string, by By) (bool, error) {
	return s.changeLimit(ctx, key, by, "limit_delete", `DELETE FROM {s}.limits WHERE key = $1::text`)
}

// changeLimit changes a limit's row, with its audit, and lets the parked jobs of the key look for room again.
func (s *Store) changeLimit(ctx context.Context, key string, by By, action, change string, args ...any) (changed bool, err error) {
	if err := tree.CheckKey(key); err != nil {
		return false, fmt.Errorf("coppice: limit key %w", err)
	}
	if err := by.check(); err != nil {
		return false, err
	}
	err = s.atomically(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, s.sql(change), append([]any{key}, args...)...)
		if changed = err == nil && tag.RowsAffected() > 0; !changed {
			return err
		}
		_, err = tx.Exec(ctx, s.sql(`
			INSERT INTO {s}.audit (action, actor, reason, detail)
			VALUES ($1::text, $2::text, $3::text, json_build_object('key', $4::text))`), action, by.Actor, orNull(by.Reason), key)
		return err
	})
	var woken []string
	if err == nil && changed {
		woken, err = s.unparkKey(ctx, key)
	}
	if err != nil {
		return changed, fmt.Errorf("%s %q: %w", action, key, err)
	}
	if len(woken) > 0 {
		_ = s.Notify(ctx, woken) // a hint that is not sent costs a poll
	}
	return changed, nil
}

// unparkKey lets all parked jobs of a limit's key look for room again. By jobs_limit_parked.
func (s *Store) unparkKey(ctx context.Context, key string) (woken []string, err error) {
	for {
		ids, err := s.ids(ctx, `
			SELECT id FROM {s}.jobs WHERE limit_key = $1::text AND parked AND NOT held
			ORDER BY priority, run_at, id LIMIT $2::integer`, key, int32(steerChunk))
		if err != nil || len(ids) == 0 {
			return woken, err
		}
		var queues []string
		err = s.pipe(ctx, step{sql: fixedPlan}, step{sql: soleSQL, args: []any{"coppice claim " + s.schema}}, step{
			sql: s.sql(`WITH freed AS (
					UPDATE {s}.jobs j SET parked = false FROM (SELECT unnest($1::bigint[]) AS id ORDER BY 1) u
					WHERE j.id = u.id AND j.parked RETURNING j.queue
				) SELECT DISTINCT queue FROM freed ORDER BY queue`),
			args: []any{ids},
			rows: func(rows pgx.Rows) (err error) {
				queues, err = pgx.CollectRows(rows, pgx.RowTo[string])
				return err
			},
		})
		if err != nil {
			return woken, err
		}
		woken = union(woken, queues)
		if len(ids) < steerChunk {
			return woken, nil
		}
	}
}

// LimitQueue limits how many jobs of a queue may run at a time, across all processes, from the next claim on; 0 lifts the
// limit. What runs goes on. Locks: the queue's row.
func (s *Store) LimitQueue(ctx context.Context, name string, maxRunning int, by By) (bool, error) {
	if maxRunning < 0 || maxRunning > MaxLimitRunning {
		return false, fmt.Errorf("coppice: max running %d is outside 0 to %d", maxRunning, MaxLimitRunning)
	}
	changed, err := s.switchQueue(ctx, name, by, "queue_limit", `
		INSERT INTO {s}.queues AS q (name, max_running) VALUES ($1::text, $2::integer)
		ON CONFLICT (name) DO UPDATE SET max_running = $2::integer WHERE q.max_running IS DISTINCT FROM $2::integer
		RETURNING true`, name, orNullInt(maxRunning))
	if changed {
		_ = s.Notify(ctx, []string{name}) // there may be more room
	}
	return changed, err
}

// LimitRow is the limit of one key, and what there is of it.
type LimitRow struct {
	Key        string
	MaxRunning int           // 0: any number
	Rate       float64       // a second; 0: any number
	Burst      float64       // of the rate
	Tokens     float64       // that may be taken now, with a rate
	NextToken  time.Duration // until the next, if somebody waits for it; else 0
	Running    int           // jobs of the key that run
	Parked     int           // that have found no room, counted up to 1,000
}

// Limits lists the limits of keys above after, in the order of the keys, at most limit; "": from the first. By limits_pkey,
// jobs_limit_running and jobs_limit_parked; no locks.
func (s *Store) Limits(ctx context.Context, after string, limit int) ([]LimitRow, error) {
	rows, err := s.pool.Query(ctx, s.sql(`
		SELECT l.key, coalesce(l.max_running, 0), coalesce(l.rate, 0), l.burst,
			CASE WHEN l.rate IS NULL THEN 0 ELSE `+bucketNow+` END,
			greatest(coalesce(`+nanos("l.retry_at - clock_timestamp()")+`, 0), 0),
			(SELECT count(*) FROM {s}.jobs j WHERE j.limit_key = l.key AND j.state = 'running'),
			(SELECT count(*) FROM (SELECT FROM {s}.jobs j WHERE j.limit_key = l.key AND j.parked AND NOT j.held LIMIT 1000) p)
		FROM {s}.limits l WHERE l.key > $1::text ORDER BY l.key LIMIT $2::integer`), after, int32(min(max(limit, 1), MaxPage)))
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[LimitRow])
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	return out, nil
}

func orNullInt(n int) *int32 {
	if n == 0 {
		return nil
	}
	v := int32(n)
	return &v
}

func orNullFloat(x float64) *float64 {
	if x == 0 {
		return nil
	}
	return &x
}
