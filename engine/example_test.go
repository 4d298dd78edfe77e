package engine_test

// README.md shows what follows, up to the next mark, as a program of its own.

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/migrations"
	"github.com/coppicehq/coppice/tree"
)

type CountWords struct{ Text string }

func (CountWords) Kind() string { return "count_words" }

type Report struct{ Title string }

func (Report) Kind() string { return "report" }

func main() {
	ctx, stop := context.WithCancel(context.Background())
	pool, err := pgxpool.New(ctx, os.Getenv("COPPICE_DATABASE_URL"))
	orExit(err)
	defer pool.Close()
	tables, err := migrations.ForPool(pool, migrations.DefaultSchema)
	orExit(err)
	_, err = tables.Up(ctx) // finds nothing to do from the second time on
	orExit(err)

	handlers := engine.NewRegistry()
	engine.MustWork(handlers, func(_ context.Context, job *engine.Job[CountWords]) (int, error) {
		return len(strings.Fields(job.Args.Text)), nil
	})
	engine.MustFinalize(handlers, func(ctx context.Context, job *engine.Job[Report], kids *engine.Children) (int, error) {
		total := 0
		for kid, err := range engine.Results[int](ctx, kids) {
			if err != nil {
				return 0, err
			}
			total += kid.Value
		}
		fmt.Printf("%s: %d words in %d texts\n", job.Args.Title, total, kids.Completed)
		stop() // a service would go on
		return total, nil
	})

	client, err := engine.NewClient(pool, engine.ClientConfig{})
	orExit(err)
	_, err = client.Insert(ctx, tree.New(Report{"Poems"}).Add(
		tree.New(CountWords{"the woods are lovely"}), tree.New(CountWords{"dark and deep"})))
	orExit(err)
	worker, err := engine.NewWorker(client, handlers, engine.WorkerConfig{})
	orExit(err)
	orExit(worker.Run(ctx)) // until ctx ends, and the last handler has
}

func orExit(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// That is all of it.

func Example() {
	defer databaseOfExample()()
	main()
	// Output: Poems: 7 words in 2 texts
}
