package store_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// afterFailure is a tracer that calls do once, when a batch has failed and before its caller hears of it.
type afterFailure struct {
	once sync.Once
	do   func()
}

func (a *afterFailure) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (a *afterFailure) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	if q.Err != nil {
		a.once.Do(a.do)
	}
}

func (a *afterFailure) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (a *afterFailure) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (a *afterFailure) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// failOnce makes the first UPDATE of jobs by application victim fail with a serialization failure. A sequence counts,
// which no rollback turns back.
func (k *kit) failOnce() {
	k.t.Helper()
	k.exec(`CREATE SEQUENCE failures;
		CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF current_setting('application_name') = 'victim' AND nextval('failures') = 1 THEN
				RAISE EXCEPTION 'made to fail' USING ERRCODE = 'serialization_failure';
			END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER fail_once AFTER UPDATE ON coppice.jobs FOR EACH STATEMENT EXECUTE FUNCTION fail_once()`)
}

func TestATransactionThatIsTriedAgainForgetsWhatItReadBefore(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	w := k.worker()
	k.insert(singles(2)...)
	claims := k.claim(w, tree.DefaultQueue, 10)
	require.Len(t, claims, 2)
	k.failOnce()
	tracer := &afterFailure{do: func() {
		k.exec(`UPDATE coppice.jobs SET claim_seq = claim_seq + 1 WHERE id = $1`, int64(claims[0].ID))
	}}
	config, err := pgxpool.ParseConfig(k.db.URL)
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["application_name"] = "victim"
	config.ConnConfig.Tracer = tracer
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	s, err := store.New(pool, k.db.Schema)
	require.NoError(t, err)

	// The first try completes one job and fails with the other; until the second, others take the first job.
	got, err := s.Settle(t.Context(), w, []store.Ending{completed(&claims[0]), failed(&claims[1])})
	require.NoError(t, err)
	require.Equal(t, 2, k.number(`SELECT last_value FROM failures`), "the settle was tried twice")
	require.Equal(t, []store.Fence{claims[0].Fence}, got.Lost)
	require.Equal(t, tree.Running, k.job(claims[0].ID).State)
}
