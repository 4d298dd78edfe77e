// Package bench measures the engine against a database that is already there: how fast jobs that do nothing
// are drained, alone or in trees. It is what `coppice bench` runs.
//
// A rate is of the drain alone: every job is inserted before the clock starts, and it stops when the worker has
// committed the last outcome. A run is refused its numbers unless every job ran exactly once, every
// finalizer read exactly its children's results, and the tables are as such a run leaves them.
//
// [WithSchema] gives it tables of its own, which are dropped afterwards.
//
// What does not live here: comparisons with other systems, and Go benchmarks of single functions, which are
// beside the code that they measure.
package bench
