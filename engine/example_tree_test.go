package engine_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

type Folder struct{ Name string }

func (Folder) Kind() string { return "folder" }

type File struct{ Bytes int }

func (File) Kind() string { return "file" }

// A tree of three levels: what a finalizer returns is what its own parent reads.
func Example_tree() {
	defer databaseOfExample()()
	ctx, stop := context.WithCancel(context.Background())
	pool, err := pgxpool.New(ctx, os.Getenv("COPPICE_DATABASE_URL"))
	orExit(err)
	defer pool.Close()

	handlers := engine.NewRegistry()
	engine.MustWork(handlers, func(_ context.Context, job *engine.Job[File]) (int, error) {
		return job.Args.Bytes, nil
	})
	engine.MustFinalize(handlers, func(ctx context.Context, job *engine.Job[Folder], kids *engine.Children) (int, error) {
		sum := 0
		for kid, err := range engine.Results[int](ctx, kids) { // in the order of the children, page by page
			if err != nil {
				return 0, err
			}
			sum += kid.Value
			if job.ParentID == 0 {
				fmt.Printf("  %s %q: %d\n", kid.Kind, kid.Key, kid.Value)
			}
		}
		if job.ParentID == 0 {
			fmt.Printf("%s: %d\n", job.Args.Name, sum)
			stop()
		}
		return sum, nil
	})

	client, err := engine.NewClient(pool, engine.ClientConfig{})
	orExit(err)
	docs := tree.New(Folder{"docs"}, tree.Key("docs")).Add(tree.New(File{300}), tree.New(File{50}))
	empty := tree.New(Folder{"empty"}, tree.Key("empty")).Add() // a finalizer of nothing, ready at once
	root := tree.New(Folder{"/"}).Add(docs, empty, tree.New(File{7}, tree.Key("readme")))
	receipt, err := client.Insert(ctx, root)
	orExit(err)
	fmt.Println("jobs:", len(receipt.IDs))

	worker, err := engine.NewWorker(client, handlers, engine.WorkerConfig{})
	orExit(err)
	orExit(worker.Run(ctx))
	// Output:
	// jobs: 6
	//   folder "docs": 350
	//   folder "empty": 0
	//   file "readme": 7
	// /: 357
}
