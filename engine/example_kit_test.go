package engine_test

import (
	"context"
	"os"

	"github.com/coppicehq/coppice/internal/testdb"
	"github.com/coppicehq/coppice/store"
)

// databaseOfExample points $COPPICE_DATABASE_URL at a database of the example's own until the function that it
// returns is called, which ends the example in the invariant check.
func databaseOfExample() (release func()) {
	const env = "COPPICE_DATABASE_URL"
	db, drop := testdb.ForExample()
	before, set := os.LookupEnv(env)
	orExit(os.Setenv(env, db.URL))
	return func() {
		if set {
			orExit(os.Setenv(env, before))
		} else {
			orExit(os.Unsetenv(env))
		}
		st, err := store.New(db.Pool, db.Schema)
		orExit(err)
		report, err := st.Check(context.Background(), store.CheckOptions{History: true})
		orExit(err)
		drop()
		if !report.OK() {
			panic(report.String())
		}
	}
}
