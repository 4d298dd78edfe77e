package testdb

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, lets go of the server and exits. A run that
// passes and leaves goroutines behind fails.
func Main(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	code := m.Run()
	if err := shared.release(); err != nil {
		fmt.Fprintln(os.Stderr, "testdb: let go of the server:", err)
		code = max(code, 1)
	}
	if code != 0 {
		return code // whoever failed may well have left something
	}
	// It waits for the server's process, which other test programs may still use.
	if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/coppicehq/coppice/internal/pglocal.reap")); err != nil {
		fmt.Fprintln(os.Stderr, "testdb:", err)
		return 1
	}
	return 0
}
