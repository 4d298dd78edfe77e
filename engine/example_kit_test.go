package engine_test

import (
	"os"

	"github.com/coppicehq/coppice/internal/testdb"
)

// databaseOfExample points $COPPICE_DATABASE_URL at a database of the example's own until the function that it
// returns is called.
func databaseOfExample() (release func()) {
	const env = "COPPICE_DATABASE_URL"
	db, drop := testdb.ForExample()
	before, set := os.LookupEnv(env)
	_ = os.Setenv(env, db.URL)
	return func() {
		if set {
			_ = os.Setenv(env, before)
		} else {
			_ = os.Unsetenv(env)
		}
		drop()
	}
}
