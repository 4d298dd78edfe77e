package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// longestJSON is how much of args and results is shown to people; --json has all.
const longestJSON = 4000

// jobFacts describes a job to people: what is not set is left out.
func (a *App) jobFacts(j *store.JobRow) []fact {
	facts := []fact{
		{"job", j.ID.String()},
		{"kind", oneLine(j.Kind, tree.MaxKindBytes)},
		{"state", a.jobState(j)},
		{"reason", string(j.Reason)},
		{"error", indent(j.Error)},
		{"queue", oneLine(j.Queue, tree.MaxQueueBytes)},
		{"tree", j.RootID.String()},
		{"parent", id(j.ParentID)},
		{"key", oneLine(j.ChildKey, tree.MaxKeyBytes)},
		{"attempts", attempts(j)},
		{"children", children(j.Round, j.Counters)},
	}
	if j.Round > 0 {
		facts = append(facts, fact{"round", fmt.Sprint(j.Round)}, fact{"on dead", string(j.OnDead)})
		if !j.Sealed {
			facts = append(facts, fact{"sealed", "no: more children may come, until " + moment(j.SealBy)})
		}
	}
	facts = append(facts,
		fact{"closing", closingOf(j)},
		fact{"skipped", skipped(j)},
		fact{"progress", howFar(j)},
		fact{"checkpoint", shownJSON(j.Checkpoint)},
		fact{"deadline", moment(j.DeadlineAt)},
		fact{"group", oneLine(j.GroupKey, tree.MaxKeyBytes)},
		fact{"limit", oneLine(j.LimitKey, tree.MaxKeyBytes)},
		fact{"priority", fmt.Sprint(j.Priority)},
		fact{"created", moment(&j.CreatedAt)},
		fact{"started", moment(j.StartedAt)},
		fact{"died", moment(j.FailedAt)},
		fact{"finished", moment(j.FinishedAt)},
		fact{"by", oneLine(j.Actor, 200)},
		fact{"worker", worker(j.WorkerID)},
		fact{"timeout", timeout(j.Timeout)},
		fact{"dedup key", oneLine(j.DedupKey, tree.MaxKeyBytes)},
		fact{"dropped key", oneLine(j.DroppedKey, tree.MaxKeyBytes)},
		fact{"tags", oneLine(strings.Join(j.Tags, ", "), 2000)},
		fact{"meta", shownJSON(j.Meta)},
		fact{"args", shownJSON(j.Args)},
		fact{"result", shownJSON(j.Result)},
	)
	return facts
}

// jobState is the state with what a person asks next: since when, until when.
func (a *App) jobState(j *store.JobRow) string {
	said := a.state(j.State)
	switch {
	case j.Due:
		said += ", due now"
	case j.State == tree.Scheduled:
		said += ", due in " + duration(j.DueIn)
	case j.State == tree.Running:
		said += " for " + duration(j.RunningFor)
	case j.StalledFor > 0:
		said += ", " + a.state(stalled) + " for " + duration(j.StalledFor)
	}
	if j.Held {
		said += ", held by an operator"
	}
	return said
}

// closingOf says what is to become of a live job, and who wants that.
func closingOf(j *store.JobRow) string {
	if j.Closing == "" || !j.State.Live() {
		return ""
	}
	said := "it ends as " + j.Closing
	if j.ClosingBy != "" {
		said += ", by " + oneLine(j.ClosingBy, 200)
	}
	if j.ClosingWhy != "" {
		said += ": " + oneLine(j.ClosingWhy, 2000)
	}
	return said
}

func skipped(j *store.JobRow) string {
	if !j.Skipped {
		return ""
	}
	return "it completed without running"
}

func howFar(j *store.JobRow) string {
	if j.Progress == nil {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100**j.Progress)
}

func attempts(j *store.JobRow) string {
	said := fmt.Sprintf("%d of %d", j.Attempt, j.MaxAttempts)
	if j.Lost > 0 {
		said += fmt.Sprintf(", lost %d times", j.Lost)
	}
	if j.Snoozes > 0 {
		said += fmt.Sprintf(", snoozed %d times", j.Snoozes)
	}
	return said
}

// children says how far the children of a finalizer have come; nothing for a job without any.
func children(round int, c store.Counters) string {
	settled := c.Completed + c.Cancelled + c.Dead + c.Removed
	if round == 0 && settled+c.Pending == 0 {
		return ""
	}
	said := fmt.Sprintf("%s of %s settled", count(settled), count(settled+c.Pending))
	for _, n := range []struct {
		n    int
		what string
	}{{c.Dead, "dead"}, {c.Cancelled, "cancelled"}, {c.Removed, "removed"}} {
		if n.n > 0 {
			said += fmt.Sprintf(", %s %s", count(n.n), n.what)
		}
	}
	return said
}

func id(id tree.ID) string {
	if id == 0 {
		return ""
	}
	return id.String()
}

func worker(id tree.WorkerID) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprint(id)
}

func timeout(d time.Duration) string {
	switch d {
	case 0:
		return "" // the worker's default, which only it knows
	case tree.NoTimeout:
		return "none"
	}
	return duration(d)
}

func moment(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateTime) + " UTC"
}

// shownJSON indents JSON of more than a line's length, and cuts what nobody would read.
func shownJSON(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	said := string(raw)
	if len(raw) > 100 {
		var b bytes.Buffer
		if json.Indent(&b, raw[:], "", "  ") == nil {
			said = b.String()
		}
	}
	if len(said) > longestJSON {
		said = tree.Clip(said, longestJSON) + fmt.Sprintf("\n... (%s in all: --json)", size(int64(len(raw))))
	}
	return strings.ReplaceAll(indent(said), "\n  ", "\n") // writeFacts indents
}
