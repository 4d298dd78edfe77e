package engine_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

func TestAnInserterWithoutAClientOrTransactionRefuses(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for name, i := range map[string]engine.Inserter{
		"no client": {}, "no client at all": (&engine.Client{}).Inserter, "no transaction": k.InTx(nil), "no transaction of database/sql": k.InSQLTx(nil),
	} {
		_, err := i.Insert(t.Context(), tree.New(task{}))
		require.ErrorContains(t, err, "coppice: insert: the ", name)
	}
	require.Zero(t, one[int](k, `SELECT count(*) FROM coppice.jobs`))
}

func TestCloseDoesNotWaitForTheWakeUpsOfOthers(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	begun := make(chan struct{}, 1)
	others.Go(func() {
		for ctx.Err() == nil {
			k.Wake("default")
			select {
			case begun <- struct{}{}:
			default:
			}
		}
	})
	receive(t, begun)
	e := listen(t, k.Store())
	for range 10 {
		k.Wake("mine")
		require.NoError(t, k.Close(t.Context()))
		for receive(t, e.heard) != "mine" {
			continue
		}
	}
	stop()
	others.Wait()
}
