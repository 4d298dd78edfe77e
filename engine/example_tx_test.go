package engine_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coppicehq/coppice/engine"
	"github.com/coppicehq/coppice/tree"
)

type Welcome struct{ User string }

func (Welcome) Kind() string { return "welcome" }

// A job inserted in a transaction of the caller exists when that commits, together with what else it
// did. For database/sql there is [engine.Client.InSQLTx].
func ExampleClient_InTx() {
	defer databaseOfExample()()
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("COPPICE_DATABASE_URL"))
	orExit(err)
	defer pool.Close()
	_, err = pool.Exec(ctx, `CREATE SCHEMA app CREATE TABLE users (name text PRIMARY KEY)`)
	orExit(err)
	client, err := engine.NewClient(pool, engine.ClientConfig{})
	orExit(err)

	signUp := func(name string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			// The key makes it one live job, however often it is asked for.
			r, err := client.InTx(tx).Insert(ctx, tree.New(Welcome{name}, tree.Dedup("welcome:"+name)))
			if err != nil {
				return err
			}
			fmt.Printf("%s: a duplicate is %t\n", name, r.Duplicate)
			_, err = tx.Exec(ctx, `INSERT INTO app.users (name) VALUES ($1)`, name)
			return err
		})
	}
	fmt.Println("committed:", signUp("ada") == nil)
	client.Wake(tree.DefaultQueue) // or the workers find it at their next poll
	fmt.Println("committed:", signUp("ada") == nil)
	fmt.Println("committed:", signUp("bob") == nil)
	orExit(client.Close(ctx))

	queues, err := client.Store().Queues(ctx)
	orExit(err)
	for _, q := range queues {
		fmt.Printf("queue %s: %d ready\n", q.Name, q.Ready)
	}
	// Output:
	// ada: a duplicate is false
	// committed: true
	// ada: a duplicate is true
	// committed: false
	// bob: a duplicate is false
	// committed: true
	// queue default: 2 ready
}
