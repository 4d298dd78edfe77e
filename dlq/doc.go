// Package dlq is the dead-letter queue as a person or a program on call sees it: what died, why, and since
// when. A dead letter is a job that automatic work has given up on, kept whole.
//
//	letters := dlq.New(st)
//	groups, _, err := letters.Groups(ctx, dlq.Filter{})                          // what is there, by queue, kind and reason
//	entries, next, err := letters.List(ctx, dlq.Filter{Queue: "mail"}, dlq.Page{}) // the newest of one queue
//	letter, err := letters.Get(ctx, entries[0].ID)                               // its args and every failed attempt
//
// One [Filter] says which dead letters are meant, everywhere.
//
// What does not live here: the queries (package store), and how a job comes to die (packages engine and
// reaper).
package dlq
