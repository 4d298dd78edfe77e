package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func TestJobIsReadFromWhereverItIs(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	for id, want := range map[tree.ID]store.JobRow{
		3: {Place: store.PlaceLive, State: tree.Running, RootID: 1, ParentID: 1, WorkerID: worker},
		4: {Place: store.PlaceHistory, State: tree.Completed, RootID: 1, ParentID: 1, ChildKey: "four"},
		5: {Place: store.PlaceDead, State: tree.Dead, RootID: 1, ParentID: 1, Reason: tree.ReasonFatal, Error: "no such file"},
	} {
		got, err := f.Job(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, store.JobRow{
			Place: got.Place, State: got.State, RootID: got.RootID, ParentID: got.ParentID,
			WorkerID: got.WorkerID, ChildKey: got.ChildKey, Reason: got.Reason, Error: got.Error,
		})
		require.Equal(t, id, got.ID)
	}
}

func TestJobThatIsNowhereIsNotFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.Job(t.Context(), 12)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.EqualError(t, err, "read job 12: not live, not in the dead-letter queue and not in the history")
}

func TestJobReadsEveryColumn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	full := row{
		"id": 9, "root_id": 2, "parent_id": 4, "claim_seq": 11, "run_at": at, "created_at": at, "started_at": at,
		"age_from": at, "stalled_at": at, "deadline_at": at, "seal_by": at, "timeout_ms": 1500, "max_age_ms": 2000,
		"backoff_base_ms": 3000, "backoff_cap_ms": 4000, "keep_ms": 0, "pending": 1, "completed": 2, "dead": 3,
		"cancelled": 4, "removed": 5, "attempt": 6, "max_attempts": 7, "lost": 8, "snoozes": 9, "round": 10,
		"parent_round": 2, "tolerate_count": 11, "tolerate_ratio": 0.1, "backoff_factor": 1.5, "backoff_jitter": 0.2,
		"progress": 0.7, "priority": -3, "sealed": false, "held": true, "queue": "q2", "kind": "k2", "on_dead": "proceed",
		"on_lost": "dead_letter", "closing": "fail_fast", "child_key": "c", "group_key": "g", "limit_key": "l", "effect": "e",
		"tags": []string{"a", "b"}, "meta": `{"m": "1"}`, "trace": `{"t":1}`, "checkpoint": `[ 1]`,
		"args": `{"b":1, "a":1.10, "b":2}`,
	}
	want := store.JobRow{
		ID: 9, RootID: 2, ParentID: 4, Kind: "k2", Queue: "q2", Held: true, Priority: -3, CreatedAt: at, RunAt: at,
		StartedAt: &at, AgeFrom: &at, StalledAt: &at, DeadlineAt: &at, SealBy: &at, Attempt: 6, MaxAttempts: 7, Lost: 8,
		Snoozes: 9, ClaimSeq: 11, Timeout: 1500 * time.Millisecond, MaxAge: 2 * time.Second, BackoffBase: 3 * time.Second,
		BackoffCap: 4 * time.Second, BackoffFactor: 1.5, BackoffJitter: 0.2, OnLost: tree.LostDeadLetter,
		Progress: new(float32(0.7)),
		Counters: store.Counters{Pending: 1, Completed: 2, Dead: 3, Cancelled: 4, Removed: 5}, Round: 10, ParentRound: 2,
		Closing: "fail_fast", OnDead: tree.Proceed, TolerateCount: 11, TolerateRatio: 0.1, ChildKey: "c", GroupKey: "g",
		LimitKey: "l", Effect: "e", KeepFor: new(time.Duration(0)), Tags: []string{"a", "b"},
		Args: json.RawMessage(full["args"].(string)), Meta: json.RawMessage(`{"m": "1"}`),
		Trace: json.RawMessage(`{"t":1}`), Checkpoint: json.RawMessage(`[ 1]`),
	}
	put := func(table string, more row) *store.JobRow {
		f.exec(`DELETE FROM {s}.jobs; DELETE FROM {s}.dead_jobs; DELETE FROM {s}.history`)
		for k, v := range full {
			if _, set := more[k]; !set {
				more[k] = v
			}
		}
		f.put(table, more)
		got, err := f.Job(t.Context(), 9)
		require.NoError(t, err)
		require.Positive(t, got.Age)
		utc(got)
		return got
	}

	live := want
	live.Place, live.State, live.WorkerID, live.DedupKey = store.PlaceLive, tree.Running, worker, "d"
	got := put("jobs", row{"state": "running", "worker_id": worker, "dedup_key": "d"})
	require.Positive(t, got.RunningFor)
	live.Age, live.RunningFor = got.Age, got.RunningFor
	require.Equal(t, live, *got)

	dead := want
	dead.Place, dead.State, dead.FailedAt, dead.Kept, dead.Reason = store.PlaceDead, tree.Dead, &at, true, tree.ReasonLost
	dead.Fingerprint, dead.DroppedKey, dead.Error, dead.WorkerID = "fp", "d", "gone", 8
	got = put("dead_jobs", row{
		"failed_at": at, "kept": true, "reason": "lost", "fingerprint": "fp", "dropped_key": "d",
		"error": "gone", "worker_id": 8,
	})
	dead.Age = got.Age
	require.Equal(t, dead, *got)

	done := want
	done.Place, done.State, done.FinishedAt, done.Actor = store.PlaceHistory, tree.Cancelled, &at, "ann"
	done.Error, done.Result = "no need", json.RawMessage(`"r"`)
	got = put("history", row{"state": "cancelled", "finished_at": at, "actor": "ann", "error": "no need", "result": `"r"`})
	done.Age = got.Age
	require.Equal(t, done, *got)
}

// utc makes the times comparable: pgx reads them in the local zone.
func utc(j *store.JobRow) {
	j.CreatedAt, j.RunAt = j.CreatedAt.UTC(), j.RunAt.UTC()
	for _, at := range []*time.Time{j.StartedAt, j.AgeFrom, j.StalledAt, j.DeadlineAt, j.SealBy, j.FailedAt, j.FinishedAt} {
		if at != nil {
			*at = at.UTC()
		}
	}
}

func TestJobWithoutOptionsReadsAsZeros(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	got, err := f.Job(t.Context(), 80)
	require.NoError(t, err)
	require.Equal(t, store.JobRow{
		Place: store.PlaceLive, ID: 80, RootID: 80, Kind: "k", Queue: "q", State: tree.Ready, CreatedAt: got.CreatedAt,
		RunAt: got.RunAt, Age: got.Age, MaxAttempts: 10, OnLost: "retry", ParentRound: 1, Sealed: true, OnDead: tree.Wait,
		DedupKey: "d", Args: json.RawMessage("{}"),
	}, *got)
}

func TestJobSaysWhetherItIsDueHeldOrStalled(t *testing.T) {
	t.Parallel()
	f := newForest(t)
	job := func(id tree.ID) *store.JobRow {
		got, err := f.Job(t.Context(), id)
		require.NoError(t, err)
		return got
	}
	require.True(t, job(12).Due)
	require.Zero(t, job(12).DueIn)
	require.False(t, job(82).Due)
	require.InDelta(t, time.Hour, job(82).DueIn, float64(time.Minute))
	require.True(t, job(81).Held)
	require.InDelta(t, time.Hour, job(1).StalledFor, float64(time.Minute))
	require.Zero(t, job(10).StalledFor)
	f.exec(`UPDATE {s}.jobs SET timeout_ms = -1 WHERE id = 80`)
	require.Equal(t, tree.NoTimeout, job(80).Timeout)
}

func TestErrorsAreTheNewestAttemptsFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`INSERT INTO {s}.job_errors (job_id, root_id, worker_id, at, attempt, round, outcome, error, stack) VALUES
		(5, 1, 7, now() - interval '3 hours', 1, 0, 'error', 'first', NULL),
		(5, 1, NULL, now() - interval '1 hour', 3, 0, 'panic', 'third', 'main.go:1'),
		(5, 1, 7, now() - interval '2 hours', 2, 0, 'timeout', 'second', NULL), (6, 1, 7, now(), 1, 0, 'error', 'other', NULL)`)
	got, err := f.Errors(t.Context(), 5, 2)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.InDelta(t, time.Hour, got[0].Age, float64(time.Minute))
	got[0].At, got[0].Age = time.Time{}, 0
	require.Equal(t, store.AttemptError{Attempt: 3, Outcome: tree.OutcomePanic, Error: "third", Stack: "main.go:1"}, got[0])
	require.Equal(t, "second", got[1].Error)
	require.Equal(t, tree.WorkerID(7), got[1].WorkerID)

	none, err := f.Errors(t.Context(), 99, 0)
	require.NoError(t, err)
	require.Empty(t, none)
}
