package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

type Charge struct{ Card string }

func (Charge) Kind() string { return "charge" }

type Bill struct{}

func (Bill) Kind() string { return "bill" }

// What a handler returns says what becomes of its job. The parent's policy, Proceed, lets it run although
// a child died.
func Example_controlErrors() {
	defer databaseOfExample()()
	ctx, stop := context.WithCancel(context.Background())
	pool, err := pgxpool.New(ctx, os.Getenv("COPPICE_DATABASE_URL"))
	orExit(err)
	defer pool.Close()

	handlers := engine.NewRegistry()
	errBusy := errors.New("the bank is busy")
	snoozed := false
	engine.MustWork(handlers, func(_ context.Context, job *engine.Job[Charge]) (string, error) {
		switch job.Args.Card {
		case "stolen": // no retry will mend it: to the dead-letter queue
			return "", fmt.Errorf("charge: %w", engine.Fatal(errors.New("the card is stolen")))
		case "refunded": // not needed any more: to the history, as cancelled
			return "", engine.Cancel(errors.New("refunded"))
		case "busy": // the attempt failed; the next after a time of our own choice
			if job.Attempt == 1 {
				return "", engine.RetryAfter(time.Millisecond, errBusy)
			}
		case "night": // not now, and at no cost; snoozed is only touched by this job, one attempt at a time
			if !snoozed {
				snoozed = true
				return "", engine.Snooze(time.Millisecond)
			}
		}
		return fmt.Sprintf("%s: paid at attempt %d", job.Args.Card, job.Attempt), nil
	})
	engine.MustFinalize(handlers, func(ctx context.Context, _ *engine.Job[Bill], kids *engine.Children) (engine.None, error) {
		for kid, err := range engine.Results[string](ctx, kids) {
			if err != nil {
				return engine.None{}, err
			}
			fmt.Println(kid.Value)
		}
		for dead, err := range kids.DeadJobs(ctx) {
			if err != nil {
				return engine.None{}, err
			}
			fmt.Printf("%s: dead, %s: %s\n", dead.Key, dead.Reason, dead.Error)
		}
		fmt.Println("cancelled:", kids.Cancelled)
		stop()
		return engine.None{}, nil
	})

	client, err := engine.NewClient(pool, engine.ClientConfig{})
	orExit(err)
	bill := tree.New(Bill{}, tree.OnDead(tree.Proceed))
	for _, card := range []string{"good", "busy", "night", "stolen", "refunded"} {
		bill.Add(tree.New(Charge{card}, tree.Key(card), tree.MaxAttempts(3)))
	}
	_, err = client.Insert(ctx, bill)
	orExit(err)
	worker, err := engine.NewWorker(client, handlers, engine.WorkerConfig{})
	orExit(err)
	orExit(worker.Run(ctx))
	// Output:
	// good: paid at attempt 1
	// busy: paid at attempt 2
	// night: paid at attempt 1
	// stolen: dead, fatal: charge: the card is stolen
	// cancelled: 1
}
