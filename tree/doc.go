// Package tree is the vocabulary of Coppice: what a job is, how jobs join into trees, which states
// and reasons there are, which options a job takes and within which limits.
//
// It holds no SQL and does no I/O. A [Node] describes a job that does not exist yet, with the
// children it is to have; [Plan] checks a forest of nodes against every limit before anything is
// written and flattens it, ancestors first, into the [Spec] rows that package store inserts.
//
//	album := tree.New(Album{ID: 7}, tree.Queue("media")).Add(
//		tree.New(Resize{Path: "a.png"}),
//		tree.New(Resize{Path: "b.png"}, tree.MaxAttempts(3)),
//	)
//
// What does not live here: running jobs (package engine), the tables (package store), the
// dead-letter queue's verbs (package dlq).
package tree
