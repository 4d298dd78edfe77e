package chaos_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/reaper"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// TestGroupsAndLimitsHoldAndLeakNothingThoughTheirWorkersAreKilled kills workers in the middle of claims that park, wake and count.
func TestGroupsAndLimitsHoldAndLeakNothingThoughTheirWorkersAreKilled(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	_, err := db.Pool.Exec(t.Context(), runsTable+`;
		CREATE TABLE over (what text NOT NULL);
		CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO over SELECT 'limit' WHERE (SELECT count(*) FROM coppice.jobs WHERE limit_key = 'l' AND state = 'running') > 5;
			INSERT INTO over SELECT 'group' FROM coppice.jobs WHERE state = 'running' AND group_key IS NOT NULL GROUP BY group_key HAVING count(*) > 1;
			RETURN NULL;
		END $$;
		CREATE TRIGGER watch AFTER UPDATE ON coppice.jobs FOR EACH STATEMENT EXECUTE FUNCTION watch()`)
	require.NoError(t, err)
	client, err := engine.NewClient(db.Pool, engine.ClientConfig{})
	require.NoError(t, err)
	by := store.By{Actor: "test"}
	require.NoError(t, client.Store().SetLimit(t.Context(), "l", store.Limit{MaxRunning: 5, Rate: 500, Burst: 20}, by))
	rounds := either(4, 40)
	var nodes []*tree.Node
	for n := range rounds * 200 {
		options := []tree.Option{tree.Group(fmt.Sprint(n % 37))}
		if n%3 > 0 {
			options = []tree.Option{tree.Limit("l")}
		}
		if n%6 == 0 {
			options = append(options, tree.Limit("l"))
		}
		nodes = append(nodes, tree.New(leaf{2_000}, patient(options...)...))
	}
	_, err = client.InsertMany(t.Context(), nodes...)
	require.NoError(t, err)
	reap, err := reaper.New(client.Store(), reaper.Config{Rescue: "@every 1s", Logger: slog.New(newLogbook(t))})
	require.NoError(t, err)
	require.NoError(t, reap.Start())
	defer func() { require.NoError(t, reap.Stop(context.Background())) }()
	workers := []*process{spawn(t, db.URL), spawn(t, db.URL)}
	for range rounds {
		<-time.After(time.Duration(200+rand.IntN(300)) * time.Millisecond)
		n := rand.IntN(2)
		workers[n].kill()
		workers[n] = spawn(t, db.URL)
	}
	drained(t, db.Pool, client.Store(), len(nodes), 2*time.Minute)
	require.Zero(t, number(t, db.Pool, `SELECT count(*) FROM over`), "limits that did not hold")
	require.Zero(t, number(t, db.Pool, `SELECT count(*) FROM (
			SELECT finished_at < lag(finished_at) OVER (PARTITION BY group_key ORDER BY id) AS early FROM coppice.history WHERE group_key IS NOT NULL
		) AS ends WHERE early`), "jobs of a group that ended before those in front of them")
	db.AssertNoDeadlocks(t)
}
