package store_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// singles are n jobs that stand alone.
func singles(n int, options ...tree.Option) []*tree.Node {
	nodes := make([]*tree.Node, n)
	for i := range nodes {
		nodes[i] = tree.New(task{}, options...)
	}
	return nodes
}

func request(w tree.WorkerID, queue string, n int) store.ClaimRequest {
	return store.ClaimRequest{WorkerID: w, Queue: queue, Limit: n, WorkKinds: []string{"task"}, FinalizeKinds: []string{"task"}}
}

func TestTenWorkersClaimEachJobOnce(t *testing.T) {
	t.Parallel()
	const workers, jobs = 10, 5_000
	k := newKit(t)
	s := k.onPool(workers)
	var nodes []*tree.Node
	for _, priority := range []int{3, -2, tree.MinPriority, 0, tree.MaxPriority} {
		nodes = append(nodes, singles(jobs/5, tree.Priority(priority))...)
	}
	ids := k.insert(nodes...)
	ws := make([]tree.WorkerID, workers)
	for i := range ws {
		ws[i] = k.worker()
	}
	var mu sync.Mutex
	taken := map[tree.ID]int{}
	together(t, workers, func(i int) error {
		limit := 1 + 17*i
		var last *store.Position
		for {
			r := request(ws[i], tree.DefaultQueue, limit)
			r.After = last
			got, err := s.Claim(t.Context(), r)
			if err != nil {
				return err
			}
			if len(got.Jobs) == 0 && last == nil {
				return nil
			}
			if len(got.Jobs) > limit {
				t.Errorf("%d jobs were claimed with a limit of %d", len(got.Jobs), limit)
			}
			last = nil
			mu.Lock()
			for n, c := range got.Jobs {
				taken[c.ID]++
				if n > 0 && before(c.Position, got.Jobs[n-1].Position) {
					t.Errorf("job %d came after job %d", c.ID, got.Jobs[n-1].ID)
				}
				if i%2 == 0 {
					last = &c.Position // every other worker goes on from where it stopped
				}
			}
			mu.Unlock()
		}
	})
	require.Len(t, taken, jobs)
	for _, id := range ids {
		require.Equal(t, 1, taken[id], "job %d", id)
	}
	require.Equal(t, jobs, k.number(`SELECT count(*) FROM coppice.jobs WHERE state = 'running' AND claim_seq = 1 AND attempt = 1`))
}

func before(a, b store.Position) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	if !a.RunAt.Equal(b.RunAt) {
		return a.RunAt.Before(b.RunAt)
	}
	return a.ID < b.ID
}

// TestAJobIsNeverHeldTwiceWhileItGoesRound claims and gives back few jobs with many workers, so that each claim meets rows
// that others have just changed.
func TestAJobIsNeverHeldTwiceWhileItGoesRound(t *testing.T) {
	t.Parallel()
	const workers, jobs = 8, 30
	turns := rounds(100)
	k := newKit(t)
	s := k.onPool(workers)
	k.insert(singles(jobs)...)
	ws := make([]tree.WorkerID, workers)
	for i := range ws {
		ws[i] = k.worker()
	}
	var mu sync.Mutex
	holder, seq := map[tree.ID]tree.WorkerID{}, map[tree.ID]int64{}
	together(t, workers, func(i int) error {
		for turn := range turns {
			got, err := s.Claim(t.Context(), request(ws[i], tree.DefaultQueue, 1+(turn+i)%7))
			if err != nil {
				return err
			}
			back := make([]store.Ending, len(got.Jobs))
			mu.Lock()
			for n := range got.Jobs {
				c := &got.Jobs[n]
				if h := holder[c.ID]; h != 0 {
					t.Errorf("job %d is held by worker %d and was claimed by worker %d", c.ID, h, ws[i])
				}
				if c.Seq <= seq[c.ID] {
					t.Errorf("the fence of job %d went from %d to %d", c.ID, seq[c.ID], c.Seq)
				}
				holder[c.ID], seq[c.ID] = ws[i], c.Seq
				back[n] = ending(c, store.EndReleased)
				if turn%2 == 0 {
					back[n] = failed(c)
				}
			}
			for _, e := range back {
				holder[e.ID] = 0 // from here on the settle may have committed
			}
			mu.Unlock()
			settled, err := s.Settle(t.Context(), ws[i], back)
			if err != nil {
				return err
			}
			if len(settled.Lost) > 0 {
				t.Errorf("lost %v", settled.Lost)
			}
		}
		return nil
	})
	require.Equal(t, jobs, k.number(`SELECT count(*) FROM coppice.jobs WHERE state = 'ready'`))
}

func TestDueJobsArePromotedAndClaimedOnce(t *testing.T) {
	t.Parallel()
	const workers, jobs = 6, 1_200
	k := newKit(t)
	s := k.onPool(workers)
	k.insert(singles(jobs)...)
	k.exec(`UPDATE coppice.jobs SET state = 'scheduled'`)
	ws := make([]tree.WorkerID, workers)
	for i := range ws {
		ws[i] = k.worker()
	}
	taken := make([][]tree.ID, workers)
	together(t, workers, func(i int) error {
		for range 10 * jobs {
			r := request(ws[i], tree.DefaultQueue, 40)
			r.Promote = true
			got, err := s.Claim(t.Context(), r)
			if err != nil {
				return err
			}
			if got.Due > 100 {
				t.Errorf("one claim promoted %d jobs", got.Due)
			}
			for _, c := range got.Jobs {
				taken[i] = append(taken[i], c.ID)
			}
			if len(got.Jobs) == 0 && got.Due == 0 {
				return nil
			}
		}
		return nil
	})
	all := slices.Concat(taken...)
	slices.Sort(all)
	require.Len(t, slices.Compact(slices.Clone(all)), len(all), "a job was claimed twice")
	// Workers that saw the last rows locked by others may have given up before those were ready.
	last := request(ws[0], tree.DefaultQueue, jobs)
	last.Promote = true
	got, err := s.Claim(t.Context(), last)
	require.NoError(t, err)
	require.Equal(t, jobs, len(all)+len(got.Jobs))
}
