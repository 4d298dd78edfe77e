// Package bench measures the engine against a database that is already there: how fast jobs that do nothing
// are drained, alone or in trees. It is what `coppice bench` runs.
//
// What does not live here: comparisons with other systems, and Go benchmarks of single functions, which are
// beside the code that they measure.
package bench
