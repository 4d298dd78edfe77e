// Package cli is the command line: one file for each command, named as it is typed (tree_show.go is "coppice
// tree show"), and around them what commands share.
//
//	app.go       the program's surroundings: streams, environment, terminal
//	root.go      the root command and the flags of all commands
//	args.go      positional arguments, and what is wrong with them
//	exit.go      which error ends in which exit code, and what is printed for it
//	database.go  from flags and environment to a database that can be used
//	confirm.go   the question before something is destroyed
//	json.go, table.go, paint.go, human.go
//	             how answers are written
//	meter.go     how long ones say how far they are
//
// Commands are made by functions that take the [App], so tests run them in-process. There is no state but
// the App's.
//
// What does not live here: anything that a program could want to do without a shell. Commands only ask
// the packages store, migrations, pglocal, bench and, for the demo, examples/sourcestats, and write down the
// answers.
package cli
