// Package pglocal runs a PostgreSQL server of the program's own, so that a first
// try needs nothing but the program, and tests need no server set up beforehand.
//
// [Start] finds the server's binaries (or fetches them), makes a cluster in the
// user's cache folder, starts it and returns its connection URL. The server listens
// on a unix socket that only its owner can reach, or on the loopback address with a
// password where a unix socket cannot be had. It never runs as root.
//
// Programs that start the same cluster share one server. Each holds a file lock
// while it uses the server, and the last one out stops it. The kernel releases the
// lock of a program that was killed, so nothing has to be cleaned up by hand:
// whoever comes next adopts the server that was left behind, or starts it again.
// A server started by [StartDetached] stays up until [Stop].
//
// A cluster folder, pg15 or pg15-unsafe in the base folder, holds
//
//	data/            the PostgreSQL data folder, owned by the account the server runs as
//	run/             the unix socket
//	users/           one locked file for each program that uses the server
//	lock             locked by whoever is starting or stopping the server
//	keep             exists while the server is to outlive its users
//	password         of the superuser, for connections over TCP
//	postgresql.conf  written at every start; change settings with ALTER SYSTEM
//	pg_hba.conf      written at every start
//	server.log       the server's log, and server.log.1 the one before
//
// What does not live here: schemas and migrations, connection pools, backups, and
// anything about servers that were set up by somebody else.
package pglocal
