// Command cmd makes albums of the folders of some source code, removes every other one, lets a worker clean up, and says what is
// left. It works in a folder of its own that it removes at the end.
//
//	go run ./examples/cleanupjournal/cmd              # albums of Go's own packages, on a private PostgreSQL
//	go run ./examples/cleanupjournal/cmd ~/src/project
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/examples/cleanupjournal"
	"github.com/coppicehq/coppice/internal/pglocal"
	"github.com/coppicehq/coppice/migrations"
	"github.com/coppicehq/coppice/tree"
)

// most bounds the albums that are made.
const most = 40

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	from := filepath.Join(runtime.GOROOT(), "src") //nolint:staticcheck // the source that this Go came with is what is wanted
	if len(os.Args) > 1 {
		from = os.Args[1]
	}
	err := run(ctx, from)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cleanupjournal:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, from string) (err error) {
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
	schema := cmp.Or(os.Getenv("COPPICE_SCHEMA"), migrations.DefaultSchema)
	m, err := migrations.ForPool(pool, schema)
	if err != nil {
		return err
	}
	if _, err := m.Up(ctx); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "albums")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	library := &cleanupjournal.Library{Folder: folder, Pool: pool}
	if err := library.Prepare(ctx); err != nil {
		return err
	}
	albums, err := fill(ctx, library, from)
	if err != nil {
		return err
	}

	client, err := engine.NewClient(pool, engine.ClientConfig{Schema: schema})
	if err != nil {
		return err
	}
	reg := engine.NewRegistry()
	if err := library.Register(reg); err != nil {
		return err
	}
	worker, err := engine.NewWorker(client, reg, engine.WorkerConfig{Logger: slog.Default()})
	if err != nil {
		return err
	}
	var jobs []tree.ID
	for i, album := range albums {
		if i%2 == 0 {
			id, err := library.Remove(ctx, client, album)
			if err != nil {
				return err
			}
			jobs = append(jobs, id)
		}
	}
	// The first of the removed comes back before its cleanup runs: that one must be skipped.
	if err := library.Add(ctx, albums[0], map[string][]byte{"cover.txt": []byte("again")}); err != nil {
		return err
	}
	if err := worker.Start(ctx); err != nil {
		return err
	}
	removed, skipped := 0, 0
	for _, id := range jobs {
		n, err := engine.Wait[int](ctx, client, id)
		var overtaken *engine.SkippedError
		switch {
		case errors.As(err, &overtaken):
			skipped++
			fmt.Printf("job %d skipped: %s\n", id, overtaken.Why)
		case err != nil:
			return errors.Join(err, worker.Stop(context.WithoutCancel(ctx)))
		}
		removed += n
	}
	if err := worker.Stop(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	left, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	fmt.Printf("%d albums, %d removed with %d files and folders, %d cleanup skipped; %d folders are left\n",
		len(albums), len(jobs), removed, skipped, len(left))
	_, err = pool.Exec(ctx, `DROP TABLE cleanupjournal_albums`)
	return err
}

// fill makes an album of each folder directly below from, of the files directly in it.
func fill(ctx context.Context, library *cleanupjournal.Library, from string) (albums []string, err error) {
	folders, err := os.ReadDir(from)
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		if !folder.IsDir() || strings.HasPrefix(folder.Name(), ".") || len(albums) == most {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(from, folder.Name()))
		if err != nil {
			return nil, err
		}
		files := map[string][]byte{}
		for _, e := range entries {
			if e.Type().IsRegular() {
				content, err := os.ReadFile(filepath.Join(from, folder.Name(), e.Name())) //nolint:gosec // the user's own files
				if err != nil {
					return nil, err
				}
				files[e.Name()] = content
			}
		}
		if len(files) == 0 {
			continue
		}
		if err := library.Add(ctx, folder.Name(), files); err != nil {
			return nil, err
		}
		albums = append(albums, folder.Name())
	}
	if len(albums) == 0 {
		return nil, fmt.Errorf("%s has no folders with files", from)
	}
	return albums, nil
}
