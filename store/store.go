package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coppicehq/coppice/migrations"
)

// DefaultSchema is the schema that Coppice's tables live in unless told otherwise.
const DefaultSchema = "coppice"

// Store runs Coppice's statements on one schema of one database. It is safe for concurrent use and holds
// nothing that needs closing; the pool is its maker's.
type Store struct {
	pool   *pgxpool.Pool
	schema string            // as given
	quoted string            // as SQL
	names  *strings.Replacer // of what statements leave open

	// Statements of the hot paths, with their names filled in once.

	claimSQL        string
	carefulSQL      string // whether the next one must be careful
	unparkSQL       string
	admitSQL        string
	leftSQL         string
	marksSQL        string
	promoteSQL      string
	nextDueSQL      string
	lockSQL         string
	lockDeadSQL     string
	completeSQL     string // of jobs outside trees
	completeTreeSQL string // of members of trees
	deadLetterSQL   string
	rescheduleSQL   string
	stopSQL         string
	endSQL          string
	insertOnceSQL   string
	insertKnownSQL  string
	insertKeyedSQL  string
	drawSQL         string
	holdersSQL      string
}

// New makes a store on a pool. An empty schema is [DefaultSchema]; a name that cannot be one is refused.
func New(pool *pgxpool.Pool, schema string) (*Store, error) {
	if pool == nil {
		return nil, fmt.Errorf("coppice: a store needs a pool")
	}
	if schema == "" {
		schema = DefaultSchema
	}
	if err := migrations.ValidSchema(schema); err != nil {
		return nil, err
	}
	s := &Store{pool: pool, schema: schema, quoted: pgx.Identifier{schema}.Sanitize()}
	s.names = strings.NewReplacer("{s}", s.quoted,
		"{seq}", literal(s.quoted+".job_ids")+"::regclass", "{workers}", literal(s.quoted+".worker_ids")+"::regclass")
	s.claimSQL = s.sql(claimSQL)
	s.promoteSQL = s.sql(promoteSQL)
	s.carefulSQL = s.sql(carefulSQL)
	s.unparkSQL = s.sql(unparkSQL)
	s.admitSQL = s.sql(admitSQL)
	s.leftSQL = s.sql(leftSQL)
	s.marksSQL = s.sql(marksSQL)
	s.nextDueSQL = s.sql(nextDueSQL)
	s.lockSQL = s.sql(lockSQL)
	s.lockDeadSQL = s.sql(lockDeadSQL)
	s.completeSQL = s.sql(completeSQL)
	s.completeTreeSQL = s.sql(completeTreeSQL)
	s.deadLetterSQL = s.sql(deadLetterSQL)
	s.rescheduleSQL = s.sql(rescheduleSQL)
	s.stopSQL = s.sql(stopSQL)
	s.endSQL = s.sql(endSQL)
	s.insertOnceSQL = s.sql(insertOnceSQL)
	s.insertKnownSQL = s.sql(insertKnownSQL)
	s.insertKeyedSQL = s.sql(insertKeyedSQL)
	s.drawSQL = s.sql(drawSQL)
	s.holdersSQL = s.sql(holdersSQL)
	return s, nil
}

// Schema returns the schema's name as it was given.
func (s *Store) Schema() string { return s.schema }

// Pool returns the pool that the store runs on.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// sql fills in what a statement leaves open: {s} is the schema; {seq} and {workers} are the sequences of jobs'
// and workers' ids, each as a regclass.
func (s *Store) sql(text string) string { return s.names.Replace(text) }

// millis is how durations travel to SQL.
func millis(d time.Duration) int64 { return d.Milliseconds() }

// CheckSchema reports whether the schema's tables are those that this program was built for. Errors:
// *migrations.MissingError, *migrations.OutdatedError, *migrations.NewerError, each saying what to run.
func (s *Store) CheckSchema(ctx context.Context) error {
	return migrations.Check(ctx, s.pool, s.schema)
}
