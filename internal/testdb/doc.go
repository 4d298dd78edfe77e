// Package testdb gives every test a PostgreSQL database of its own.
//
// [New] clones a template that has the tables of Coppice, which takes tens of
// milliseconds, and drops the clone when the test has passed. All test programs of
// a run share one server: a private, undurable one that package pglocal starts, or
// the one that $COPPICE_TEST_DATABASE_URL names, whose user must be a superuser. Say
// sslmode=disable or sslmode=require in it where it is reached over TCP: the drivers
// that the tests use disagree on what none means.
//
// A package that uses it lets go of the server in its TestMain:
//
//	func TestMain(m *testing.M) { testdb.Main(m) }
//
// Examples, which have no testing.TB, use [ForExample].
//
// What does not live here: the invariant check of job trees, fixtures, and tests of
// the private server itself.
package testdb
