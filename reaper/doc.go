// Package reaper keeps a schema in order on a schedule: it takes back the jobs of workers that died, and
// makes the history's partitions for the days to come.
//
// It is leaderless. Any number of processes may run it at once, each pass is safe beside the others, and one is
// enough: a program that runs a worker usually runs a reaper beside it.
//
//	r, err := reaper.New(client.Store(), reaper.Config{})
//	err = r.Start()
//	defer r.Stop(ctx)
//
// The reaper judges rows, never kinds: it needs no handlers, and what becomes of a job is what the job's own
// row says.
//
// What does not live here: the statements (package store), and what a worker does for itself, such as
// renewing its lease (package engine).
package reaper
