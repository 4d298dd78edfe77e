// Command cmd counts a folder of source code as a tree of jobs, prints the report, and checks it against a plain
// walk of the same files.
//
//	go run ./examples/sourcestats/cmd                    # the source of Go, on a private PostgreSQL
//	go run ./examples/sourcestats/cmd -files 500 ~/src
//	COPPICE_DATABASE_URL=postgres://... go run ./examples/sourcestats/cmd -json .
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/examples/sourcestats"
	"github.com/coppicehq/coppice/internal/pglocal"
	"github.com/coppicehq/coppice/migrations"
	"github.com/coppicehq/coppice/tree"
)

func main() {
	files := flag.Int("files", 0, "count only the first so many files")
	asJSON := flag.Bool("json", false, "print the report as JSON")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, flag.Arg(0), *files, *asJSON)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sourcestats:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, files int, asJSON bool) error {
	if root == "" {
		var err error
		if root, err = sourcestats.DefaultRoot(ctx); err != nil {
			return err
		}
	}
	url := os.Getenv("COPPICE_DATABASE_URL")
	if url == "" {
		server, err := pglocal.Start(ctx, pglocal.Options{})
		if err != nil {
			return err
		}
		defer server.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the next program adopts a server that did not stop
		url = server.URL()
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	report, err := count(ctx, pool, root, files)
	if err != nil {
		return err
	}
	if asJSON {
		err = json.NewEncoder(os.Stdout).Encode(report)
	} else {
		err = report.Text(os.Stdout)
	}
	if err != nil {
		return err
	}
	want, err := sourcestats.Walk(root, files)
	if err != nil {
		return err
	}
	if err := sourcestats.Verify(report.FolderStats, want); err != nil {
		return fmt.Errorf("a plain walk of the same files disagrees: %w", err)
	}
	fmt.Fprintln(os.Stderr, "a plain walk of the same files agrees")
	return nil
}

// count runs the tree of jobs in a schema that is made if it is not there.
func count(ctx context.Context, pool *pgxpool.Pool, root string, files int) (sourcestats.Report, error) {
	schema := cmp.Or(os.Getenv("COPPICE_SCHEMA"), migrations.DefaultSchema)
	m, err := migrations.ForPool(pool, schema)
	if err != nil {
		return sourcestats.Report{}, err
	}
	if _, err := m.Up(ctx); err != nil {
		return sourcestats.Report{}, err
	}
	client, err := engine.NewClient(pool, engine.ClientConfig{Schema: schema})
	if err != nil {
		return sourcestats.Report{}, err
	}
	return sourcestats.Run(ctx, client, sourcestats.RunConfig{
		Root:  root,
		Files: files,
		Inserted: func(id tree.ID, counts sourcestats.Counts) {
			fmt.Fprintf(os.Stderr, "tree %d: %d files in %d folders\n", id, counts.Files, counts.Folders)
		},
	})
}
