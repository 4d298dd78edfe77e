package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/internal/bench"
)

func (a *App) bench(g *globals) *cobra.Command {
	return group("bench",
		"Measure how fast jobs are worked off here",
		`Measure how many jobs a second one worker gets through on this machine and this database, with handlers that do
nothing: the ceiling of what you can expect, and the cost of a setting. See the two workloads.

Jobs are inserted first. The clock runs from the worker's start, with every job waiting, until the last outcome is
committed. A rate is only told if every job ran exactly once, every finalizer read exactly its children's results,
and the tables are left as they should be. The settings that matter are told with it.

Nothing of yours is touched: a bench has its tables in a schema of its own, `+bench.Schema+`, whatever --schema
says, and drops it when it ends, also after Ctrl-C. What a killed bench left is dropped by the next. It does load
the server, and its disk: one at a time, and not where others work.`,
		`  coppice bench flat --jobs 200000
  coppice bench trees --children 20 --json`,
		a.benchFlat(g),
		a.benchTrees(g),
		a.benchStream(g),
	)
}

// benchJSON is what both benches answer with --json.
type benchJSON struct {
	bench.Result
	bench.Settings
}

func (a *App) benchFlat(g *globals) *cobra.Command {
	return a.benchCommand(g, &cobra.Command{
		Use:   "flat",
		Short: "Measure jobs that stand alone",
		Long: `Measure jobs that stand alone: how fast they are claimed, run and settled, without any tree. This is the number
to hold against other job queues, on the same machine and the same PostgreSQL.

  --jobs         how many; run long enough, ten seconds or more, for a rate that means something
  --groups       put them into so many groups, of which one job runs at a time
  --max-running  handlers at once
  --no-history   keep no row of a finished job, which spares the database an insert for each

Read more with "coppice bench --help".`,
		Example: `  coppice bench flat
  coppice bench flat --jobs 200000 --no-history
  coppice bench flat --json | jq .jobs_per_second`,
	}, 0, false)
}

func (a *App) benchTrees(g *globals) *cobra.Command {
	return a.benchCommand(g, &cobra.Command{
		Use:   "trees",
		Short: "Measure trees of a root and its children",
		Long: `Measure trees of one level: children that give a result, and a root that runs when the last of them has ended
and reads every result. It shows what counters, results and finalizers cost beside "coppice bench flat".

  --jobs         how many in all, roots included; trees are whole, so there may be a few more
  --children     of each tree
  --max-running  handlers at once
  --no-history   keep no row of a finished job, which spares the database an insert for each

Read more with "coppice bench --help".`,
		Example: `  coppice bench trees
  coppice bench trees --jobs 50000 --children 1000
  coppice bench trees --json | jq .jobs_per_second`,
	}, 10, false)
}

func (a *App) benchStream(g *globals) *cobra.Command {
	return a.benchCommand(g, &cobra.Command{
		Use:   "stream",
		Short: "Measure one tree whose children come in while others run",
		Long: `Measure one tree of any size whose children are streamed in, in chunks, while a worker runs those that are there;
the root runs at the end and reads every result. It shows what a tree of a million costs, in time and in memory.

  --jobs         how many in all, the root included
  --max-running  handlers at once
  --no-history   keep no row of a finished job, which spares the database an insert for each

Read more with "coppice bench --help".`,
		Example: `  coppice bench stream --jobs 1000000
  coppice bench stream --json | jq .peak_memory_bytes`,
	}, 0, true)
}

// benchCommand gives cmd its flags and its run. Only trees have children, as many as that by default.
func (a *App) benchCommand(g *globals, cmd *cobra.Command, children int, stream bool) *cobra.Command {
	var asJSON bool
	o := bench.Options{Stream: stream}
	flags := cmd.Flags()
	flags.IntVar(&o.Jobs, "jobs", 100_000, "run so many jobs")
	if children > 0 {
		flags.IntVar(&o.Children, "children", children, "give each tree so many children")
	}
	if children == 0 && !stream {
		flags.IntVar(&o.Groups, "groups", 0, "put the jobs into so many groups, of which one job runs at a time")
	}
	flags.IntVar(&o.MaxRunning, "max-running", engine.DefaultMaxRunning, "run so many handlers at once")
	flags.BoolVar(&o.KeepNone, "no-history", false, "keep no row of finished jobs")
	jsonFlag(cmd, &asJSON)
	cmd.Args = operands()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case o.Jobs < 1 || o.Jobs > bench.MaxJobs:
			return usage(cmd, "--jobs: %d is outside 1 to %s; 100000 is a good start", o.Jobs, count(bench.MaxJobs))
		case stream && o.Jobs < 2:
			return usage(cmd, "--jobs: a stream is of 2 or more: a root and its children")
		case children > 0 && (o.Children < 1 || o.Children > bench.MaxChildren):
			return usage(cmd, `--children: %d is outside 1 to %s; for jobs without children there is "coppice bench flat"`,
				o.Children, count(bench.MaxChildren))
		case o.Groups < 0 || o.Groups > bench.MaxChildren:
			return usage(cmd, "--groups: %d is outside 0 to %s", o.Groups, count(bench.MaxChildren))
		case o.MaxRunning < 1 || o.MaxRunning > 10_000:
			return usage(cmd, "--max-running: %d is outside 1 to 10,000; the default is %d", o.MaxRunning, engine.DefaultMaxRunning)
		}
		out, err := a.measure(cmd.Context(), g, o)
		if err != nil {
			return err
		}
		if asJSON {
			return a.writeJSON(out)
		}
		return a.writeFacts(benchFacts(out)...)
	}
	return cmd
}

func (a *App) measure(ctx context.Context, g *globals, o bench.Options) (out benchJSON, err error) {
	db, err := a.connect(ctx, g)
	if err != nil {
		return out, err
	}
	defer db.close(ctx)
	if out.Settings, err = bench.ReadSettings(ctx, db.pool); err != nil {
		return out, err
	}
	err = bench.WithSchema(ctx, db.pool, func(ctx context.Context) error {
		client, err := engine.NewClient(db.pool, engine.ClientConfig{Schema: bench.Schema})
		if err != nil {
			return err
		}
		var watch benchMeter
		o.Progress = watch.follow(a, o.Total())
		out.Result, err = bench.Run(ctx, client, o)
		watch.end(err == nil)
		return errors.Join(err, client.Close(context.WithoutCancel(ctx)))
	})
	var pg *pgconn.PgError
	switch {
	case ctx.Err() != nil:
		if errors.Is(err, bench.ErrLeft) {
			fmt.Fprintln(a.Err, "interrupted:", err)
		} else {
			fmt.Fprintln(a.Err, "interrupted: nothing was measured, and nothing is left in the database")
		}
		return out, ctx.Err()
	case errors.As(err, &pg) && pg.Code == "42501": // insufficient privilege
		return out, fmt.Errorf("%w; the bench makes a schema of its own: GRANT CREATE ON DATABASE to this role, or leave "+
			"--database-url and %s out for the private PostgreSQL", err, databaseEnv)
	}
	return out, err
}

// benchMeter shows the two halves of a run.
type benchMeter struct{ insert, drain *meter }

func (m *benchMeter) follow(a *App, total int) func(inserted, ran int) {
	m.insert = a.newMeter("insert", int64(total))
	return func(inserted, ran int) {
		if inserted < total {
			m.insert.set(int64(inserted))
			return
		}
		if m.drain == nil {
			m.insert.end(true)
			m.drain = a.newMeter("work  ", int64(total))
		}
		m.drain.set(int64(ran))
	}
}

func (m *benchMeter) end(well bool) {
	if m.drain != nil {
		m.drain.end(well)
		return
	}
	m.insert.end(well)
}

func benchFacts(b benchJSON) []fact {
	jobs := plural(b.Jobs, "job", "jobs")
	if b.Trees > 0 {
		jobs += fmt.Sprintf(" in %s of %s, %s read", plural(b.Trees, "tree", "trees"),
			plural(b.Children, "child", "children"), plural(b.ResultsRead, "result", "results"))
	}
	history := "kept"
	if !b.History {
		history = "none"
	}
	before := ", before the clock started"
	if b.Workload == "stream" {
		before = ", while others ran"
	}
	return []fact{
		{"jobs", jobs + "; each ran once"},
		{"rate", count(int64(b.JobsPerSecond)) + " jobs a second"},
		{"time", fmt.Sprintf("%.2fs", b.Seconds)},
		{"insert", fmt.Sprintf("%.2fs, %s jobs a second%s", b.InsertSeconds, count(int64(b.InsertsPerSecond)), before)},
		{"worker", fmt.Sprintf("1, with %s at once; history %s", plural(b.MaxRunning, "handler", "handlers"), history)},
		{"server", fmt.Sprintf("PostgreSQL %s\nsynchronous_commit %s, fsync %s, full_page_writes %s\nshared_buffers %s, max_wal_size %s",
			b.PostgreSQL, b.SynchronousCommit, b.Fsync, b.FullPageWrites, b.SharedBuffers, b.MaxWALSize)},
		{"here", fmt.Sprintf("%s, %s, GOMAXPROCS %d, at most %s", b.Go, b.Platform, b.GOMAXPROCS,
			plural(b.PoolConnections, "connection", "connections"))},
		{"memory", peak(b.PeakMemoryBytes)},
	}
}

// peak says how much memory the process took at most.
func peak(bytes uint64) string {
	if bytes == 0 {
		return ""
	}
	return size(int64(bytes)) + " at most, of this process"
}
