package chaos_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/coppicehq/coppice/internal/testdb"
)

// Variables of the environment.
const (
	longEnv   = "COPPICE_CHAOS"        // set: the long form
	workerEnv = "COPPICE_CHAOS_WORKER" // the URL of the database that this process is a worker of
)

func TestMain(m *testing.M) {
	url := os.Getenv(workerEnv)
	if url == "" {
		testdb.Main(m)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := workerProcess(ctx, url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // nothing is left to clean up
	}
	os.Exit(0)
}

// long says whether the long form was asked for.
func long() bool { return os.Getenv(longEnv) != "" }

// either picks by the form.
func either[T any](short, longer T) T {
	if long() {
		return longer
	}
	return short
}
