package sourcestats_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/examples/sourcestats"
	"github.com/coppicehq/coppice/internal/testcheck"
	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestATreeOfJobsCountsAsThePlainWalkDoes(t *testing.T) {
	t.Parallel()
	root := sample(t)
	want, err := sourcestats.Walk(root, 0)
	require.NoError(t, err)
	job := runTree(t, root, tree.Completed)
	var got sourcestats.FolderStats
	require.NoError(t, json.Unmarshal(job.Result, &got))
	require.NoError(t, sourcestats.Verify(got, want))
}

// runTree runs the tree of a folder until its root is in the state.
func runTree(t *testing.T, root string, state tree.State) *store.JobRow {
	t.Helper()
	db := testdb.New(t)
	reg := engine.NewRegistry()
	require.NoError(t, sourcestats.Register(reg))
	client, err := engine.NewClient(db.Pool, engine.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, client.Close(context.Background()))
		testcheck.AssertInvariants(t, client.Store())
		db.AssertNoDeadlocks(t)
	})
	worker, err := engine.NewWorker(client, reg, engine.WorkerConfig{})
	require.NoError(t, err)
	require.NoError(t, worker.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, worker.Stop(context.Background())) })

	node, _, err := sourcestats.Tree(root, 0)
	require.NoError(t, err)
	receipt, err := client.Insert(t.Context(), node)
	require.NoError(t, err)
	var job *store.JobRow
	require.Eventually(t, func() bool {
		job, err = client.Store().Job(t.Context(), receipt.ID)
		return err == nil && job.State == state
	}, 20*time.Second, 5*time.Millisecond)
	return job
}
