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

// Helper does nothing.
func (*exampleTB) Helper() {}

// Failed says no: nobody tells an example.
func (*exampleTB) Failed() bool { return false }

// Logf keeps quiet, for what an example prints is compared.
func (*exampleTB) Logf(string, ...any) {}

// Cleanup keeps f for end.
func (e *exampleTB) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

// Errorf panics: an example has no other way to fail.
func (*exampleTB) Errorf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// Fatalf panics like Errorf.
func (*exampleTB) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// end runs what Cleanup was given, the last first, as testing does.
func (e *exampleTB) end() {
	for _, f := range slices.Backward(e.cleanups) {
		f()
	}
}
