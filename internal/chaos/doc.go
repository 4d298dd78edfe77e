// Package chaos has the tests that break things around the engine while it works: worker processes are killed and
// frozen, the server is stopped and crashes, connections are cut between a commit and its answer.
//
// Every test runs in a short form with the others; "make chaos" runs the long ones, for about two minutes.
//
// What does not live here: races that can be forced within one process, which are tests of store and engine.
package chaos
