package engine_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

// Crawl finds out what there is to do while it runs.
type Crawl struct{ Site string }

func (Crawl) Kind() string { return "crawl" }

// Page is one page of a crawl.
type Page struct{ Path string }

func (Page) Kind() string { return "page" }

// A job that returns FanOut waits for its new children, and then finalizes; from there it may fan out again.
func ExampleFanOut() {
	defer databaseOfExample()()
	ctx, stop := context.WithCancel(context.Background())
	pool, err := pgxpool.New(ctx, os.Getenv("COPPICE_DATABASE_URL"))
	orExit(err)
	defer pool.Close()

	handlers := engine.NewRegistry()
	engine.MustWork(handlers, func(_ context.Context, job *engine.Job[Page]) (string, error) {
		return "read " + job.Args.Path, nil
	})
	engine.MustWork(handlers, func(_ context.Context, job *engine.Job[Crawl]) (engine.None, error) {
		return engine.None{}, engine.FanOut(tree.New(Page{"/"}, tree.Key("/")), tree.New(Page{"/about"}, tree.Key("/about")))
	})
	engine.MustFinalize(handlers, func(ctx context.Context, job *engine.Job[Crawl], kids *engine.Children) (engine.None, error) {
		for kid, err := range engine.Results[string](ctx, kids.InRound(job.Round)) {
			if err != nil {
				return engine.None{}, err
			}
			fmt.Printf("round %d: %s\n", job.Round, kid.Value)
		}
		if job.Round == 1 { // a link was found; what was read before is not read again
			return engine.None{}, engine.FanOut(tree.New(Page{"/"}, tree.Key("/")), tree.New(Page{"/blog"}, tree.Key("/blog")))
		}
		fmt.Printf("%s: %d pages\n", job.Args.Site, kids.Completed)
		stop()
		return engine.None{}, nil
	})

	client, err := engine.NewClient(pool, engine.ClientConfig{})
	orExit(err)
	_, err = client.Insert(ctx, tree.New(Crawl{"example.org"}))
	orExit(err)
	worker, err := engine.NewWorker(client, handlers, engine.WorkerConfig{})
	orExit(err)
	orExit(worker.Run(ctx))
	// Output:
	// round 1: read /
	// round 1: read /about
	// round 2: read /blog
	// example.org: 3 pages
}
