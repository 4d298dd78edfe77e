package store_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// modelSteps is about how many steps the model test takes: COPPICE_MODEL_STEPS, or as many as fit into the suite.
func modelSteps() int {
	if steps, err := strconv.Atoi(os.Getenv("COPPICE_MODEL_STEPS")); err == nil {
		return steps
	}
	if testing.Short() {
		return 3_000
	}
	return 21_000
}

// TestEveryStepIsTheModels takes random steps on the store and on the model, and compares all rows and checks all
// invariants after each.
func TestEveryStepIsTheModels(t *testing.T) {
	t.Parallel()
	const each, machines = 3_000, 2 // rapid's hundred checks of thirty steps
	for n := range machines {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			for range max(1, (modelSteps()/each+machines-1-n)/machines) {
				rapid.Check(t, func(rt *rapid.T) { k.walk(rt) })
			}
		})
	}
}

// walk takes some thirty steps from an empty database.
func (k *kit) walk(t *rapid.T) {
	_, err := k.db.Pool.Exec(k.t.Context(), `TRUNCATE coppice.jobs, coppice.dead_jobs, coppice.history, coppice.results,
		coppice.job_errors, coppice.workers, coppice.queues, coppice.audit`)
	require.NoError(t, err)
	m := &machine{kit: k, model: newModel()}
	m.workers = []tree.WorkerID{k.worker(), k.worker()}
	t.Repeat(map[string]func(*rapid.T){
		"":          m.compare,
		"insert":    m.insertTrees,
		"claim":     m.claimSome,
		"claim all": m.claimSome,
		"settle":    m.settleSome,
		"settle 2":  m.settleSome, // twice as often as the rest
		"again":     m.settleOld,
		"time":      m.letTimePass,
		"hold":      m.hold,
		"cancel":    m.cancelSome,
		"sweep":     m.sweepSome,
		"fan out":   m.fanOutSome,
		"add":       m.addSome,
		"seal":      m.sealSome,
		"give up":   m.giveUpSome,
		"run now":   m.runNow,
		"priority":  m.reprioritise,
		"pause":     m.pause,
		"rescue":    m.rescueOne,
		"explain":   m.explainSome,
	})
}

// machine takes each step on both sides.
type machine struct {
	*kit
	*model
	workers []tree.WorkerID
}

func queueOf(t *rapid.T) string { return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue") }

// draw draws a tree and, in the order of insertion, the model's side of it.
func (m *machine) draw(t *rapid.T, depth int, specs *[]*modelSpec, jobs *[]*modelJob, parents *[]int, parent int) *tree.Node {
	spec := &modelSpec{
		queue:    queueOf(t),
		policy:   rapid.SampledFrom([]tree.DeadPolicy{tree.Wait, tree.Proceed, tree.Fail, tree.Fail}).Draw(t, "policy"),
		tolerate: max(0, rapid.IntRange(-3, 2).Draw(t, "tolerate")),
		max:      rapid.IntRange(1, 4).Draw(t, "attempts"),
		onLost:   rapid.SampledFrom([]tree.LostPolicy{tree.LostRetry, tree.LostRetry, tree.LostDeadLetter}).Draw(t, "lost"),
		later:    rapid.IntRange(0, 5).Draw(t, "later") == 0,
	}
	priority := rapid.IntRange(-1, 1).Draw(t, "priority")
	options := []tree.Option{
		tree.Queue(spec.queue), tree.OnDead(spec.policy), tree.MaxAttempts(spec.max), tree.OnLost(spec.onLost), tree.Priority(priority),
		tree.Tolerate(spec.tolerate),
	}
	if spec.later {
		options = append(options, tree.Delay(time.Hour))
	}
	n, job := tree.New(task{}, options...), &modelJob{State: tree.Ready, Priority: priority, Sealed: true}
	if spec.later {
		job.State = tree.Scheduled
	}
	place := len(*jobs)
	*specs, *jobs, *parents = append(*specs, spec), append(*jobs, job), append(*parents, parent)
	if depth > 0 && rapid.Bool().Draw(t, "finalizes") {
		kids := rapid.IntRange(0, 3).Draw(t, "kids")
		job.Round, job.Pending, job.Sealed = 1, kids, rapid.IntRange(0, 3).Draw(t, "open") > 0
		if !job.Sealed {
			n = tree.New(task{}, append(options, tree.Open(time.Hour))...)
		}
		n.Add()
		if kids > 0 || !job.Sealed {
			job.State = tree.Waiting
		}
		for range kids {
			n.Add(m.draw(t, depth-1, specs, jobs, parents, place))
		}
	}
	return n
}

func (m *machine) insertTrees(t *rapid.T) {
	if len(m.jobs) > 150 {
		t.Skip("enough")
	}
	var specs []*modelSpec
	var jobs []*modelJob
	var parents []int
	var nodes []*tree.Node
	for range rapid.IntRange(1, 3).Draw(t, "trees") {
		nodes = append(nodes, m.draw(t, rapid.IntRange(0, 4).Draw(t, "depth"), &specs, &jobs, &parents, -1))
	}
	m.enter(m.insert(nodes...), specs, jobs, parents, nil)
}

// enter notes what was inserted: under a job, or as trees of their own.
func (m *machine) enter(ids []tree.ID, specs []*modelSpec, jobs []*modelJob, parents []int, under *modelJob) {
	for i, id := range ids {
		jobs[i].ID, specs[i].root = id, id
		if under != nil {
			jobs[i].Parent, specs[i].root = under.ID, m.specs[under.ID].root
			jobs[i].Held, jobs[i].HoldBelow = under.HoldBelow, under.HoldBelow
		}
		if parents[i] >= 0 {
			jobs[i].Parent, specs[i].root = jobs[parents[i]].ID, specs[parents[i]].root
		}
		m.jobs[id], m.specs[id] = jobs[i], specs[i]
	}
}

func (m *machine) claimSome(t *rapid.T) {
	queue, w := queueOf(t), rapid.SampledFrom(m.workers).Draw(t, "worker")
	may := m.claimable(queue)
	r := request(w, queue, rapid.IntRange(1, 12).Draw(t, "limit"))
	r.Promote = rapid.Bool().Draw(t, "promote")
	got, err := m.Claim(m.t.Context(), r)
	require.NoError(t, err)
	require.Len(t, got.Jobs, min(r.Limit, len(may)))
	require.Zero(t, got.Due, "what is due was made ready before")
	taken := map[tree.ID]bool{}
	for i, c := range got.Jobs {
		j := m.jobs[c.ID]
		require.NotNil(t, j)
		require.Contains(t, may, j)
		require.False(t, taken[c.ID])
		taken[c.ID] = true
		if i > 0 {
			require.False(t, before(c.Position, got.Jobs[i-1].Position))
		}
		j.State, j.Worker, j.Seq, j.Attempt = tree.Running, w, j.Seq+1, j.Attempt+1
		require.Equal(t, j.Seq, c.Seq)
		require.Equal(t, j.Attempt, c.Attempt)
		require.Equal(t, [4]int{j.Completed, j.Dead, j.Cancelled, 0}, [4]int{c.Completed, c.Dead, c.Cancelled, c.Removed})
		require.Zero(t, j.Pending, "it runs before its children have settled")
		m.old = append(m.old, c)
	}
	for _, j := range may {
		for id := range taken {
			if !taken[j.ID] {
				require.LessOrEqual(t, m.jobs[id].Priority, j.Priority, "job %d was left for job %d", j.ID, id)
			}
		}
	}
}

// anyEnding draws how a claim ends.
func anyEnding(t *rapid.T, c *store.Claim) store.Ending {
	end := rapid.SampledFrom([]store.End{
		store.EndCompleted, store.EndCompleted, store.EndCompleted, store.EndCancelled, store.EndRetry, store.EndSnoozed, store.EndReleased, store.EndDead, store.EndDead, store.EndStopped,
	}).Draw(t, "end")
	e := ending(c, end)
	switch end {
	case store.EndCompleted:
		if rapid.Bool().Draw(t, "result") {
			e = completed(c)
		}
	case store.EndDead:
		e = dead(c)
	case store.EndRetry:
		e.Outcome, e.Error = tree.OutcomeError, "try again"
	}
	if (end == store.EndRetry || end == store.EndSnoozed) && rapid.Bool().Draw(t, "later") {
		e.Delay = time.Hour
	}
	return e
}

// settleBoth settles a batch on both sides.
func (m *machine) settleBoth(t *rapid.T, w tree.WorkerID, batch []store.Ending) {
	got, err := m.Settle(m.t.Context(), w, batch)
	require.NoError(t, err)
	var lost []store.Fence
	for i := range batch {
		if !m.model.settle(w, &batch[i]) {
			lost = append(lost, batch[i].Fence)
		}
	}
	require.ElementsMatch(t, lost, got.Lost)
}

func (m *machine) settleSome(t *rapid.T) {
	w := rapid.SampledFrom(m.workers).Draw(t, "worker")
	claims := m.current(w)
	if len(claims) == 0 {
		t.Skip("it holds nothing")
	}
	n := rapid.IntRange(1, len(claims)).Draw(t, "batch")
	batch := make([]store.Ending, n)
	for i, c := range rapid.Permutation(claims).Draw(t, "order")[:n] {
		batch[i] = anyEnding(t, c)
	}
	m.settleBoth(t, w, batch)
}

// current are the claims that a worker holds.
func (m *machine) current(w tree.WorkerID) []*store.Claim {
	var out []*store.Claim
	for i := range m.old {
		c := &m.old[i]
		if j := m.jobs[c.ID]; j.State == tree.Running && j.Worker == w && j.Seq == c.Seq {
			out = append(out, c)
		}
	}
	return out
}

// settleOld settles claims of any age under any worker's name, once for each job.
func (m *machine) settleOld(t *rapid.T) {
	if len(m.old) == 0 {
		t.Skip("nothing was claimed")
	}
	w := rapid.SampledFrom(m.workers).Draw(t, "worker")
	var batch []store.Ending
	seen := map[tree.ID]bool{}
	for range rapid.IntRange(1, 6).Draw(t, "batch") {
		c := &m.old[rapid.IntRange(0, len(m.old)-1).Draw(t, "claim")]
		if !seen[c.ID] {
			seen[c.ID] = true
			batch = append(batch, anyEnding(t, c))
		}
	}
	m.settleBoth(t, w, batch)
}

// letTimePass makes everything due that is scheduled, and every due time that finalizers still have to come.
func (m *machine) letTimePass(t *rapid.T) {
	m.exec(`UPDATE coppice.jobs SET run_at = now() - interval '1 second' WHERE run_at > now() AND NOT held`)
	for id, spec := range m.specs {
		if !m.jobs[id].Held {
			spec.later = false
		}
	}
	for _, queue := range []string{"a", "b"} {
		// A claim of no kind at all promotes and takes nothing.
		got, err := m.Claim(m.t.Context(), store.ClaimRequest{WorkerID: m.workers[0], Queue: queue, Limit: 1, Promote: true})
		require.NoError(t, err)
		require.Empty(t, got.Jobs)
		due := 0
		for _, j := range m.inState(tree.Scheduled) {
			if m.specs[j.ID].queue == queue && !j.Held {
				j.State = tree.Ready
				due++
			}
		}
		require.Equal(t, due, got.Due)
	}
}

func (m *machine) pause(t *rapid.T) {
	queue := queueOf(t)
	m.paused[queue] = !m.paused[queue]
	m.exec(`INSERT INTO coppice.queues (name, paused_at) VALUES ($1, CASE WHEN $2 THEN now() END)
		ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at`, queue, m.paused[queue])
}

// rescueOne ends a worker's lease and takes back what it held; a new worker comes in its place.
func (m *machine) rescueOne(t *rapid.T) {
	i := rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")
	m.expire(m.workers[i])
	m.rescue(1_000)
	m.lose(m.workers[i])
	m.workers[i] = m.worker()
}

// compare holds every row against the model, and checks the invariants.
func (m *machine) compare(t *rapid.T) {
	const columns = `j.id, coalesce(j.parent_id, 0), j.state, j.held, j.hold_below, coalesce(j.closing, ''), j.priority, j.sealed, j.claim_seq, %s, j.attempt, j.snoozes, j.lost, j.round,
		j.pending, j.completed, j.dead, j.cancelled, (SELECT count(*) FROM coppice.results r WHERE r.parent_id = j.id)`
	rows, err := m.db.Pool.Query(m.t.Context(), `
		SELECT `+fmt.Sprintf(columns, "coalesce(j.worker_id, 0)")+` FROM coppice.jobs j
		UNION ALL SELECT `+fmt.Sprintf(columns, "0")+` FROM coppice.dead_jobs j
		UNION ALL SELECT `+fmt.Sprintf(columns, "0")+` FROM coppice.history j`)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[modelJob])
	require.NoError(t, err)
	require.Len(t, got, len(m.jobs))
	for _, row := range got {
		want := *m.jobs[row.ID]
		if !want.State.Live() { // what it was marked with depends on when a sweep came by; what it became is its state
			want.Closing, row.Closing = "", ""
		}
		require.Equal(t, want, row)
	}
	report, err := m.Check(m.t.Context(), store.CheckOptions{History: true})
	require.NoError(t, err)
	require.True(t, report.OK(), report.String())
}
