// Package store is Coppice on PostgreSQL: the statements that insert, claim, settle and read jobs, one file
// per concern, plain SQL beside the Go method that runs it. Squirrel builds the filters of lists; the hot
// path is literal SQL.
//
// Every query says which index it is meant to use, and every one that locks, which rows and in which
// order. docs/internals.md has the protocols and the lock order as a whole.
//
// What does not live here: what a job means (package tree), when to claim and how to run handlers (package
// engine), and the tables themselves (package migrations).
package store
