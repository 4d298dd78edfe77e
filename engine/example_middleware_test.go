package engine_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

type Greet struct{ Name string }

func (Greet) Kind() string { return "greet" }

type tenantKey struct{}

// Middleware wraps every attempt, the first of the list outermost.
func ExampleMiddleware() {
	defer databaseOfExample()()
	ctx, stop := context.WithCancel(context.Background())
	pool, err := pgxpool.New(ctx, os.Getenv("COPPICE_DATABASE_URL"))
	orExit(err)
	defer pool.Close()

	trace := func(next engine.Next) engine.Next {
		return func(ctx context.Context, job *engine.JobInfo) error {
			fmt.Printf("begin %s, attempt %d\n", job.Kind, job.Attempt)
			err := next(ctx, job)
			fmt.Println("end, error:", err)
			return err
		}
	}
	tenant := func(next engine.Next) engine.Next {
		return func(ctx context.Context, job *engine.JobInfo) error {
			return next(context.WithValue(ctx, tenantKey{}, job.Meta()["tenant"]), job)
		}
	}

	handlers := engine.NewRegistry()
	engine.MustWork(handlers, func(ctx context.Context, job *engine.Job[Greet]) (engine.None, error) {
		fmt.Printf("hello %s of %s\n", job.Args.Name, ctx.Value(tenantKey{}))
		stop()
		return engine.None{}, nil
	})
	client, err := engine.NewClient(pool, engine.ClientConfig{})
	orExit(err)
	_, err = client.Insert(ctx, tree.New(Greet{"Ada"}, tree.Meta("tenant", "Acme")))
	orExit(err)
	worker, err := engine.NewWorker(client, handlers, engine.WorkerConfig{Middleware: []engine.Middleware{trace, tenant}})
	orExit(err)
	orExit(worker.Run(ctx))
	// Output:
	// begin greet, attempt 1
	// hello Ada of Acme
	// end, error: <nil>
}
