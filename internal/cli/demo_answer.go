package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/coppicehq/coppice/examples/sourcestats"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// demoJSON is what "demo --json" answers.
type demoJSON struct {
	Verified bool   `json:"verified"`          // a plain walk of the same files agrees
	Problem  string `json:"problem,omitempty"` // why not

	// Counted from the database.
	Tree       tree.ID `json:"tree"`
	Queue      string  `json:"queue"`
	Jobs       int64   `json:"jobs"`
	Completed  int64   `json:"completed"`
	Cancelled  int64   `json:"cancelled"`
	Dead       int64   `json:"dead"`
	Live       int64   `json:"live"`       // not ended; 0 once the root has completed
	Finalizers int64   `json:"finalizers"` // of Completed

	Seconds       float64 `json:"seconds"`       // in all
	StartSeconds  float64 `json:"start_seconds"` // until the database was there
	JobsSeconds   float64 `json:"jobs_seconds"`  // from the insert's end to the root's completion
	WalkSeconds   float64 `json:"walk_seconds"`  // of the plain walk
	JobsPerSecond float64 `json:"jobs_per_second"`

	Report *sourcestats.Report `json:"report"` // null: the root has not completed
}

func (j *demoJSON) tallied(root tree.ID, queue string, t store.Tally) {
	j.Tree, j.Queue = root, queue
	j.Jobs, j.Completed, j.Cancelled, j.Dead, j.Finalizers = t.Jobs(), t.Completed, t.Cancelled, t.Dead, t.Finalizers
	j.Live = t.Live
}

// answer writes what came out, and tidies up.
func (d *demo) answer(ctx context.Context, report sourcestats.Report) error {
	completed := report.Folders > 0 // the root at least
	if completed {
		if d.said.Report = &report; d.resume == 0 && d.said.JobsSeconds > 0 {
			d.said.JobsPerSecond = float64(d.said.Jobs) / d.said.JobsSeconds
		}
		if err := d.store.ForgetQueue(ctx, d.queue); err != nil {
			return err
		}
	}
	if d.asJSON {
		return d.app.writeJSON(d.said)
	}
	if old := d.unfinished(ctx); len(old) > 0 {
		fmt.Fprintf(d.app.Err, "%s left unfinished, which this one did not touch: coppice demo --resume %d\n",
			plural(len(old), "earlier demo was", "earlier demos were"), old[0])
	}
	if !completed {
		return nil // the error says it all
	}
	fmt.Fprintln(d.app.Out)
	if err := report.Text(d.app.Out); err != nil {
		return err
	}
	fmt.Fprintln(d.app.Out)
	return d.app.writeFacts(d.facts()...)
}

func (d *demo) facts() []fact {
	j := d.said
	seconds := func(s float64) string { return duration(time.Duration(s * float64(time.Second))) }
	rate := ""
	if j.JobsPerSecond > 0 && j.Jobs >= 1_000 { // fewer say nothing
		rate = fmt.Sprintf(", %s a second", count(int64(j.JobsPerSecond)))
	}
	took := fmt.Sprintf("%s in all\n%s until the database was there\n%s for the jobs%s\n%s for the plain walk",
		seconds(j.Seconds), seconds(j.StartSeconds), seconds(j.JobsSeconds), rate, seconds(j.WalkSeconds))
	facts := []fact{
		{"jobs", fmt.Sprintf("%s completed, %s dead; %s", count(j.Completed), count(j.Dead), plural(j.Finalizers, "was a finalizer", "were finalizers"))},
		{"time", took},
		{"look", fmt.Sprintf("coppice tree show %d\ncoppice job show %d\ncoppice tree list --finished", j.Tree, j.Tree)},
	}
	if j.Verified {
		facts = append(facts, fact{"checked", "by a plain walk of the same files: " + d.app.paint(d.app.OutTerminal, green, "verified")})
	}
	return facts
}
