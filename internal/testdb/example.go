package testdb

import (
	"fmt"
	"slices"
)

// ForExample is [New] for examples, which have no testing.TB: the database is dropped by release, which the
// example must call. It panics where New would fail the test.
func ForExample() (db *DB, release func()) {
	e := &exampleTB{}
	db = open(e, tables{}, "example")
	return db, e.end
}

// exampleTB stands in for the testing.TB of an example.
type exampleTB struct {
	cleanups []func()
}

func (*exampleTB) Helper()             {}
func (*exampleTB) Failed() bool        { return false } // nobody tells an example
func (*exampleTB) Logf(string, ...any) {}
func (e *exampleTB) Cleanup(f func())  { e.cleanups = append(e.cleanups, f) }

func (*exampleTB) Errorf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }
func (*exampleTB) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// end runs what Cleanup was given, the last first, as testing does.
func (e *exampleTB) end() {
	for _, f := range slices.Backward(e.cleanups) {
		f()
	}
}
