package sourcestats_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/examples/sourcestats"
	"github.com/coppicehq/coppice/internal/testcheck"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/tree"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func newClient(t *testing.T) *engine.Client {
	t.Helper()
	db := testdb.New(t)
	client, err := engine.NewClient(db.Pool, engine.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, client.Close(context.Background()))
		testcheck.AssertInvariants(t, client.Store())
		db.AssertNoDeadlocks(t)
	})
	return client
}

func TestATreeOfJobsCountsAsThePlainWalkDoes(t *testing.T) {
	t.Parallel()
	client, root := newClient(t), sample(t)
	for _, files := range []int{0, 3} {
		want, err := sourcestats.Walk(root, files)
		require.NoError(t, err)
		var completed int64
		got, err := sourcestats.Run(t.Context(), client, sourcestats.RunConfig{
			Root: root, Files: files,
			Inserted: func(id tree.ID, counts sourcestats.Counts) {
				require.NotZero(t, id)
				require.EqualValues(t, want.Files, counts.Files)
			},
			Progress: func(n int64) { completed = n },
		})
		require.NoError(t, err)
		require.NoError(t, sourcestats.Verify(got.FolderStats, want))
		require.LessOrEqual(t, completed, want.Files+want.Folders)
	}
}

func TestAFileThatIsGoneStopsTheRun(t *testing.T) {
	t.Parallel()
	client, root := newClient(t), sample(t)
	node, _, err := sourcestats.Tree(root, 0)
	require.NoError(t, err)
	receipt, err := client.Insert(t.Context(), node)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(root, "b", "one.go"))) // before any worker could have read it
	_, err = sourcestats.Resume(t.Context(), client, receipt.ID, sourcestats.RunConfig{})
	var dead *sourcestats.DeadError
	require.ErrorAs(t, err, &dead)
	require.ErrorContains(t, err, "died: open "+filepath.Join(root, "b", "one.go")+": no such file or directory (coppice tree show 1)")
}
