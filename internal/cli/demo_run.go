package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/examples/sourcestats"
	"github.com/coppicehq/coppice/reaper"
	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// demoQueue begins the name of every demo's queue.
const demoQueue = "demo-"

// farewell bounds what is still asked of the database after Ctrl-C.
const farewell = 3 * time.Second

// demo is one run of the demo.
type demo struct {
	app    *App
	path   string // the folder; empty: the toolchain's, or the resumed tree's
	files  int    // zero: all
	resume tree.ID
	asJSON bool

	store *store.Store
	queue string
	root  tree.ID
	meter *meter
	said  demoJSON
}

func (d *demo) run(ctx context.Context, g *globals) error {
	started := time.Now()
	if err := d.choosePath(ctx); err != nil {
		return err
	}
	db, st, err := d.app.open(ctx, g)
	if err != nil {
		return err
	}
	defer db.close(ctx)
	d.store = st
	d.said.StartSeconds = time.Since(started).Seconds()
	if err := d.chooseQueue(ctx); err != nil {
		return err
	}
	report, err := d.work(ctx)
	if ctx.Err() != nil {
		d.interrupted(ctx)
		return ctx.Err()
	}
	if report.FolderStats, err = d.judge(ctx, report, err); err != nil {
		if ctx.Err() != nil {
			d.interrupted(ctx)
		}
		if d.said.Tree == 0 {
			return err // there is no tree to report on
		}
		d.said.Problem = err.Error()
	}
	d.said.Seconds = time.Since(started).Seconds()
	return errors.Join(d.answer(ctx, report), err)
}

func (d *demo) choosePath(ctx context.Context) (err error) {
	switch {
	case d.resume != 0:
		return nil
	case d.path == "":
		if d.path, err = sourcestats.DefaultRoot(ctx); err != nil {
			return fmt.Errorf("%w; name a folder to count with --path", err)
		}
	}
	if err := readable(d.path); err != nil {
		return err
	}
	d.path, err = filepath.Abs(d.path)
	return err
}

// chooseQueue gives a run a queue that no other run has. The name says when and by which process it was made, for
// those who find it in a list.
func (d *demo) chooseQueue(ctx context.Context) error {
	if d.resume == 0 {
		d.queue = fmt.Sprintf("%s%s-%d", demoQueue, time.Now().Format("20060102-150405"), os.Getpid())
		return nil
	}
	job, err := d.store.Job(ctx, d.resume)
	if err != nil {
		return notFound(err, "tree", d.resume)
	}
	d.queue, d.root = job.Queue, job.ID
	return nil
}

// work runs the tree, with a reaper beside the worker.
func (d *demo) work(ctx context.Context) (sourcestats.Report, error) {
	client, err := engine.NewClient(d.store.Pool(), engine.ClientConfig{Schema: d.store.Schema()})
	if err != nil {
		return sourcestats.Report{}, err
	}
	upkeep, err := reaper.New(d.store, reaper.Config{Rescue: "@every 2s"})
	if err != nil {
		return sourcestats.Report{}, err
	}
	if err := upkeep.Start(); err != nil {
		return sourcestats.Report{}, err
	}
	report, err := d.count(ctx, client)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	return report, errors.Join(err, upkeep.Stop(closing), client.Close(closing))
}

func (d *demo) count(ctx context.Context, client *engine.Client) (sourcestats.Report, error) {
	var from time.Time
	config := sourcestats.RunConfig{
		Root: d.path, Files: d.files, Queue: d.queue,
		Inserted: func(id tree.ID, counts sourcestats.Counts) {
			d.root, from = id, time.Now()
			jobs := counts.Files + counts.Folders
			fmt.Fprintf(d.app.Err, "tree %d: %s for %s in %s\n", id, plural(jobs, "job", "jobs"),
				plural(counts.Files, "file", "files"), plural(counts.Folders, "folder", "folders"))
			d.meter = d.app.newMeter("jobs", int64(jobs))
		},
		Progress: func(completed int64) { d.meter.set(completed) },
	}
	run := func() (sourcestats.Report, error) { return sourcestats.Run(ctx, client, config) }
	if d.resume != 0 {
		counts, err := d.store.TreeCounts(ctx, d.resume)
		if err != nil {
			return sourcestats.Report{}, err
		}
		tally, err := d.store.TreeTally(ctx, d.resume)
		if err != nil {
			return sourcestats.Report{}, err
		}
		fmt.Fprintf(d.app.Err, "tree %d: %s of %s left\n", d.resume, count(tally.Live), plural(tally.Jobs(), "job", "jobs"))
		if n := counts.States[tree.Running]; n > 0 {
			fmt.Fprintf(d.app.Err, "%s of them with the worker before, whose lease is over in 10 seconds at the most\n", count(n))
		}
		from = time.Now()
		d.meter = d.app.newMeter("jobs", max(tally.Jobs(), 1))
		run = func() (sourcestats.Report, error) { return sourcestats.Resume(ctx, client, d.resume, config) }
	}
	report, err := run()
	if d.meter != nil {
		d.meter.end(err == nil)
		d.said.JobsSeconds = time.Since(from).Seconds()
	}
	return report, err
}

// judge counts what the database has of the tree and compares the report with a plain walk. It returns the report's
// numbers, or an error that says why they are not to be trusted.
func (d *demo) judge(ctx context.Context, report sourcestats.Report, failed error) (sourcestats.FolderStats, error) {
	if d.root == 0 {
		return report.FolderStats, advise(failed)
	}
	tally, err := d.store.TreeTally(ctx, d.root)
	if err != nil {
		if failed == nil {
			failed = err // else it is the cause of this one too
		}
		return report.FolderStats, fmt.Errorf("%w; coppice demo --resume %d goes on with what is left", failed, d.root)
	}
	d.said.tallied(d.root, d.queue, tally)
	if failed != nil {
		return report.FolderStats, advise(failed)
	}
	from := time.Now()
	walked, err := d.walk(ctx, report)
	d.said.WalkSeconds = time.Since(from).Seconds()
	if err != nil {
		return report.FolderStats, err
	}
	files, folders := report.Files, report.Folders
	if tally.Completed != files+folders || tally.Jobs() != tally.Completed || tally.Finalizers != folders {
		return report.FolderStats, fmt.Errorf("the database has %d jobs of tree %d, %d of them completed, %d of those finalizers; "+
			"%d files in %d folders need %d (coppice doctor)", tally.Jobs(), d.root, tally.Completed, tally.Finalizers, files, folders, files+folders)
	}
	if differs := sourcestats.Verify(report.FolderStats, walked); differs != nil {
		return report.FolderStats, d.explain(ctx, report.Root, differs)
	}
	d.said.Verified = true
	return report.FolderStats, nil
}

// walk takes the plain walk. It reads files for seconds, and Ctrl-C does not wait for it.
func (d *demo) walk(ctx context.Context, report sourcestats.Report) (sourcestats.FolderStats, error) {
	type answer struct {
		stats sourcestats.FolderStats
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		stats, err := sourcestats.Walk(report.Root, report.Limit)
		done <- answer{stats, err}
	}()
	select {
	case <-ctx.Done():
		return sourcestats.FolderStats{}, ctx.Err()
	case a := <-done:
		if a.err != nil {
			return a.stats, fmt.Errorf("the plain walk, after the jobs, failed: %w", a.err)
		}
		return a.stats, nil
	}
}

// explain says which file is to blame for a difference, if one is.
func (d *demo) explain(ctx context.Context, path string, differs error) error {
	changed, err := sourcestats.Changed(ctx, d.store, d.root, path)
	switch {
	case err != nil:
		return errors.Join(differs, err)
	case changed != "":
		return fmt.Errorf("%s; run the demo again, or on a folder that nobody writes to", changed)
	}
	return fmt.Errorf("the jobs and a plain walk disagree, and no file has changed: %w", differs)
}

// interrupted says what a run that was stopped has left behind. ctx has ended.
func (d *demo) interrupted(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if d.root == 0 { // the insert may have been committed all the same
		trees, _, err := d.store.Trees(ctx, store.TreeFilter{Queue: d.queue, Limit: 1})
		if err == nil && len(trees) == 0 {
			fmt.Fprintln(d.app.Err, "interrupted: nothing was inserted")
			return
		}
		if err == nil {
			d.root = trees[0].RootID
		}
	}
	tally, err := d.store.TreeTally(ctx, d.root)
	switch {
	case err != nil:
		fmt.Fprintf(d.app.Err, "interrupted: the jobs stay in queue %s (coppice tree list --queue %s)\n", d.queue, d.queue)
	case tally.Live == 0:
		fmt.Fprintf(d.app.Err, "interrupted: tree %d is done, but not verified\n", d.root)
	default:
		fmt.Fprintf(d.app.Err, "interrupted: %s of tree %d stay in the database, %s have completed\n",
			plural(tally.Live, "job", "jobs"), d.root, count(tally.Completed))
	}
	fmt.Fprintf(d.app.Err, "  coppice tree show %d      shows what became of them\n", d.root)
	fmt.Fprintf(d.app.Err, "  coppice demo --resume %d  goes on from there\n", d.root)
}

// unfinished lists the trees of other demos that nobody works on, the newest first. Errors are kept: it is a hint.
func (d *demo) unfinished(ctx context.Context) []tree.ID {
	trees, _, err := d.store.Trees(ctx, store.TreeFilter{Kind: sourcestats.FolderArgs{}.Kind(), Limit: 20})
	if err != nil {
		return nil
	}
	workers, err := d.store.Workers(ctx)
	if err != nil {
		return nil
	}
	served := map[string]bool{}
	for _, w := range workers {
		for _, q := range w.Queues {
			served[q] = served[q] || w.Lease != store.LeaseOver
		}
	}
	var out []tree.ID
	for _, t := range trees {
		if strings.HasPrefix(t.Queue, demoQueue) && t.RootID != d.root && t.StalledAt == nil && t.Place == store.PlaceLive && !served[t.Queue] {
			out = append(out, t.RootID)
		}
	}
	return out
}
