package cli

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

func (a *App) queue(g *globals) *cobra.Command {
	return group("queue",
		"Look at queues, pause, resume and limit them",
		`Look at queues, pause, resume and limit them. A queue is there as soon as a job or a worker names it; jobs of one tree
may be in several.`,
		`  coppice queue list
  coppice queue pause mail --reason "the mail server is down"`,
		a.queueList(g),
		a.queuePause(g),
		a.queueResume(g),
		a.queueLimit(g),
	)
}

// queueJSON is one queue in the answer of "queue list --json".
type queueJSON struct {
	Name               string     `json:"name"`
	Ready              int64      `json:"ready"`
	Due                int64      `json:"due"`
	Scheduled          int64      `json:"scheduled"`
	Running            int64      `json:"running"`
	Waiting            int64      `json:"waiting"`
	Held               int64      `json:"held"`
	Dead               int64      `json:"dead"`
	OldestReadySeconds float64    `json:"oldest_ready_seconds"`
	PausedAt           *time.Time `json:"paused_at"`
	PausedBy           string     `json:"paused_by,omitempty"`
	MaxRunning         int        `json:"max_running"`               // 0: no limit
	HistorySeconds     float64    `json:"history_retention_seconds"` // 0: nothing is kept
	DeadSeconds        *float64   `json:"dead_retention_seconds"`    // null: for ever
}

func (a *App) queueList(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List queues with what is in them",
		Long: `List every queue that has a job, a dead letter or a setting. You need it to see where work piles up: a queue
whose OLDEST rises has too few workers, or none.

  READY      jobs that may be claimed now
  OLDEST     how long the one that has been due longest has waited for a worker
  SCHEDULED  jobs that are due later, or back off after a failure; "+3 due" is about to become ready
  RUNNING    jobs that a worker has, and "/ 10" if no more may run at a time
  WAITING    finalizers whose children are not settled
  HELD       jobs that an operator holds, in whatever state
  DEAD       dead letters
  HISTORY    how long finished jobs are kept
  DLQ        how long dead letters are kept
  PAUSED     since when nothing is claimed from it, and who decided that

The counts cost a pass over all live jobs: ask every few seconds, not all the time.`,
		Example: `  coppice queue list
  coppice queue list --json | jq -r '.[] | select(.oldest_ready_seconds > 60) | .name'`,
		Args: operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, st, err := a.open(cmd.Context(), g)
			if err != nil {
				return err
			}
			defer db.close(cmd.Context())
			queues, err := st.Queues(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				out := make([]queueJSON, len(queues))
				for i, q := range queues {
					out[i] = queueOf(q)
				}
				return a.writeJSON(out)
			}
			return a.writeQueues(queues)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *App) writeQueues(queues []store.QueueRow) error {
	if len(queues) == 0 {
		fmt.Fprintln(a.Err, "there are no queues yet")
		return nil
	}
	t := a.newTable("queue~", "ready>", "oldest>", "scheduled>", "running>", "waiting>", "held>", "dead>", "history>", "dlq>", "paused")
	for _, q := range queues {
		oldest, scheduled, running, paused := "-", count(q.Scheduled), count(q.Running), ""
		if q.OldestReady > 0 {
			oldest = duration(q.OldestReady)
		}
		if q.Due > 0 {
			scheduled += fmt.Sprintf(" +%s due", count(q.Due))
		}
		if q.MaxRunning > 0 {
			running += " / " + count(q.MaxRunning)
		}
		if q.PausedAt != nil {
			paused = a.paint(a.OutTerminal, yellow, moment(q.PausedAt))
			if q.PausedBy != "" {
				paused += " by " + oneLine(q.PausedBy, 40)
			}
		}
		dead := count(q.Dead)
		if q.Dead > 0 {
			dead = a.paint(a.OutTerminal, red, dead)
		}
		t.AppendRow(table.Row{
			oneLine(q.Name, 60), count(q.Ready), oldest, scheduled, running, count(q.Waiting),
			count(q.Held), dead, retention(historyRetention(q)), deadRetention(q), paused,
		})
	}
	return a.writeTable(t)
}

func historyRetention(q store.QueueRow) time.Duration {
	if q.HistoryRetention == nil {
		return tree.DefaultHistoryRetention
	}
	return *q.HistoryRetention
}

func deadRetention(q store.QueueRow) string {
	if q.DeadRetention == nil {
		return "ever"
	}
	return retention(*q.DeadRetention)
}

func retention(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return duration(d)
}

func queueOf(q store.QueueRow) queueJSON {
	out := queueJSON{
		Name: q.Name, Ready: q.Ready, Due: q.Due, Scheduled: q.Scheduled, Running: q.Running, Waiting: q.Waiting,
		Held: q.Held, Dead: q.Dead, OldestReadySeconds: q.OldestReady.Seconds(), PausedAt: q.PausedAt,
		PausedBy: q.PausedBy, MaxRunning: q.MaxRunning, HistorySeconds: historyRetention(q).Seconds(),
	}
	if q.DeadRetention != nil {
		seconds := q.DeadRetention.Seconds()
		out.DeadSeconds = &seconds
	}
	return out
}
