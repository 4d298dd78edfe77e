// Command coppice operates Coppice from a shell: it migrates the schema, looks at queues, trees and jobs, and
// checks that all is well. Run "coppice --help" for the commands and the exit codes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/coppicehq/coppice/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills
	code := cli.System().Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
