// Package engine is Coppice at work: a [Client] inserts jobs and trees of jobs, a [Registry] knows the
// handlers of their kinds, and a [Worker] claims, runs and settles them.
//
//	reg := engine.NewRegistry()
//	engine.MustWork(reg, func(ctx context.Context, job *engine.Job[Resize]) (Size, error) { ... })
//	engine.MustFinalize(reg, func(ctx context.Context, job *engine.Job[Album], kids *engine.Children) (Summary, error) {
//		for kid, err := range engine.Results[Size](ctx, kids) { ... }
//	})
//
//	client, err := engine.NewClient(pool, engine.ClientConfig{})
//	receipt, err := client.Insert(ctx, tree.New(Album{ID: 7}).Add(tree.New(Resize{Path: "a.png"})))
//
//	worker, err := engine.NewWorker(client, reg, engine.WorkerConfig{})
//	err = worker.Run(ctx)
//
// A job runs at least once: a handler whose worker dies, or whose outcome could not be written before its
// lease ended, runs again. An outcome is recorded at most once. A handler says more than success or failure
// through the errors it returns: [Fatal], [RetryAfter], [Snooze], [Cancel]; and with [FanOut] it gives its job children.
//
// What does not live here: SQL (package store), the description of jobs (package tree), the dead-letter
// queue's verbs (package dlq), upkeep (package reaper).
package engine
