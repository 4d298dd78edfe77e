package testdb_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/coppicehq/coppice/internal/pglocal"
	"github.com/coppicehq/coppice/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestEveryTestHasADatabaseOfItsOwnWithTheTables(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for range 3 {
		db := testdb.New(t)
		require.False(t, names[db.Name], "two tests share the database %s", db.Name)
		names[db.Name] = true
		var tables int
		err := db.Pool.QueryRow(t.Context(),
			`SELECT count(*) FROM information_schema.tables WHERE table_schema = $1`, db.Schema).Scan(&tables)
		require.NoError(t, err)
		require.Positive(t, tables)
	}
}

// BenchmarkNew says what a test pays for a database of its own.
func BenchmarkNew(b *testing.B) {
	testdb.New(b) // makes the server and the template, which later ones share
	for b.Loop() {
		testdb.New(b)
	}
}

func TestThePoolIsSmallAndItsURLWorks(t *testing.T) {
	t.Parallel()
	db := testdb.NewWith(t, testdb.Empty{})
	require.EqualValues(t, 8, db.Pool.Config().MaxConns)
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var name, role string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT current_database(), current_user`).Scan(&name, &role))
	require.Equal(t, db.Name, name)
	require.NotEqual(t, "coppice", role, "tests do not run as the superuser")
}

func TestTheServerLogShowsOnlyWhatConcernsTheTest(t *testing.T) {
	t.Parallel()
	other := testdb.NewWith(t, testdb.Empty{})
	db := testdb.NewWith(t, testdb.Empty{})
	_, err := other.Pool.Exec(t.Context(), `DO $$ BEGIN RAISE WARNING 'from the other test'; END $$`)
	require.NoError(t, err)
	_, err = db.Pool.Exec(t.Context(), `DO $$ BEGIN RAISE WARNING E'first line\nsecond line'; END $$`)
	require.NoError(t, err)
	log := db.ServerLog(t)
	require.Contains(t, log, "first line\n\tsecond line")
	require.NotContains(t, log, "from the other test")
	db.AssertNoDeadlocks(t)
}

func TestADeadlockIsFoundInTheServerLog(t *testing.T) {
	t.Parallel()
	db := testdb.NewWith(t, testdb.Empty{})
	deadlock(t, db)
	require.Contains(t, db.ServerLog(t), "deadlock detected")
}

// deadlock makes two transactions wait for each other.
func deadlock(t *testing.T, db *testdb.DB) {
	t.Helper()
	ctx := t.Context()
	_, err := db.Pool.Exec(ctx, `CREATE TABLE pair (id int PRIMARY KEY); INSERT INTO pair VALUES (1), (2)`)
	require.NoError(t, err)
	locked := make(chan struct{}, 2)
	both := make(chan struct{})
	var group errgroup.Group
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		group.Go(func() error {
			return pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
				lock := `SELECT FROM pair WHERE id = $1 FOR UPDATE`
				if _, err := tx.Exec(ctx, lock, order[0]); err != nil {
					return err
				}
				locked <- struct{}{}
				<-both
				_, err := tx.Exec(ctx, lock, order[1])
				return err
			})
		})
	}
	<-locked
	<-locked
	close(both)
	require.ErrorContains(t, group.Wait(), "deadlock detected")
}

func TestAnotherServerCanBeUsed(t *testing.T) {
	t.Parallel()
	o := pglocal.Options{Folder: privateFolder(t), Unsafe: true}
	s, err := pglocal.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=OfItsOwn|PoolIsSmall")
	cmd.Env = append(os.Environ(), testdb.URLEnv+"="+s.URL(), pglocal.CacheDirEnv+"=/nowhere")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: TestThePoolIsSmallAndItsURLWorks")
}
