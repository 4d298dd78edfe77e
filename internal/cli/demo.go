package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/examples/sourcestats"
	"github.com/coppicehq/coppice/tree"
)

func (a *App) demo(g *globals) *cobra.Command {
	var (
		asJSON bool
		path   string
		files  int
		resume int64
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Count a folder of source code as a tree of jobs",
		Long: `Count the files, lines and bytes of a folder as one tree of jobs, and check the answer. You need it to see a
tree at work before you write one: it takes well under a minute and needs nothing but this program.

Every file is a job, every folder a finalizer that runs when all below it has ended and adds up the results of
its children, and the root's result is the report. A worker and a reaper run in this process; the worker waits
for work before the first job is inserted. In the end a plain walk counts the same files again, without
jobs, and if both agree to the last byte the last word is "verified". The numbers of jobs are counted from
the database.

Every run has a queue of its own, so that two at once, or one that was killed, do not get in each other's way.
Ctrl-C stops the run and leaves what is not done in the database, where "coppice tree show" finds it; --resume
goes on with it, also after kill -9: jobs that a killed worker had are taken back when its lease of ten
seconds is over.

Without --database-url it all happens in the private PostgreSQL of "coppice db". The exit code is 0 only if the
answer is verified.`,
		Example: `  coppice demo
  coppice demo --path ~/src --files 500
  coppice demo --json | jq .jobs_per_second
  coppice demo --resume 4711`,
		Args: operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case cmd.Flags().Changed("files") && files < 1:
				return usage(cmd, "--files: %d is below 1; leave it out to count all", files)
			case cmd.Flags().Changed("path") && path == "":
				return usage(cmd, "--path is empty")
			case cmd.Flags().Changed("resume") && resume < 1:
				return usage(cmd, "--resume: %d is no tree's id", resume)
			case resume > 0 && (path != "" || files > 0):
				return usage(cmd, "--resume goes without --path and --files: the tree knows them")
			}
			d := demo{app: a, path: path, files: files, resume: tree.ID(resume), asJSON: asJSON}
			return d.run(cmd.Context(), g)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&path, "path", "", "count this folder (default: the source of the Go toolchain)")
	flags.IntVar(&files, "files", 0, "count only the first so many files (default: all)")
	flags.Int64Var(&resume, "resume", 0, "go on with the tree of a demo that was stopped")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// readable reports why the folder cannot be counted, before anything is started for it.
func readable(path string) error {
	_, err := os.ReadDir(path)
	if info, failed := os.Stat(path); failed == nil && !info.IsDir() {
		return fmt.Errorf("--path: %s is no folder", path)
	}
	if err != nil {
		return fmt.Errorf("--path: %w", err)
	}
	return nil
}

// advise adds the next step to errors that have one.
func advise(err error) error {
	var invalid *tree.InvalidError
	var dead *sourcestats.DeadError
	switch {
	case errors.As(err, &invalid):
		return fmt.Errorf("%w: count fewer with --files", err)
	case errors.As(err, &dead):
		return fmt.Errorf("%w; the demo needs files that stay where they are and can be read", err)
	}
	return err
}
