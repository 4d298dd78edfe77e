// Package migrations holds the tables of Coppice as goose SQL files, and brings
// a PostgreSQL schema up to them.
//
// Every table lives in one schema, [DefaultSchema] unless the caller names
// another. The files can be applied in four ways that agree on the result:
//
//   - by a program: [New] or [ForPool], then [Migrator.Up];
//
//   - by the command line: coppice migrate up, down, status;
//
//   - by hand: [Print] writes the whole as SQL for psql, or for another
//     migration tool;
//
//   - by plain goose, from this folder, once the schema exists:
//
//     COPPICE_SCHEMA=jobs goose -table jobs.goose_db_version postgres "$URL" up
//
// Plain goose copies the variable into the SQL as it stands and does not quote
// the table's name, so it is for schema names of lower-case letters, digits and
// underscores. Everything else here takes any name that [ValidSchema] accepts.
//
// The versions applied are in the table goose_db_version of that schema, so two
// schemas of one database may be at different versions.
//
// # Many programs starting at once
//
// Up, UpTo, Down and DownTo hold a transaction-level advisory lock named after
// the schema for as long as they work. Whoever comes second waits, finds nothing
// left to do, and succeeds. The lock is not a session's: it works through
// PgBouncer in transaction mode, and a program that dies lets go of it.
//
// They open two connections of their own, one to hold the lock and one to work,
// and close both, so neither the size of the caller's pool nor its other users
// matter; a PgBouncer between needs two server connections to spare. A role needs
// no more than CREATE on the database, or an existing schema in which it may create
// tables.
//
// # Writing a migration
//
// A file is named NNNNN_words.sql and has an Up and a Down section. It spells the
// schema "${COPPICE_SCHEMA:-coppice}", double quotes included, under an ENVSUB ON
// annotation. As goose expands variables there, a dollar sign that should reach
// the server is written twice: the body of a function stands between $$$$ and
// $$$$. In a string literal the placeholder must come first, as in
// nextval('"${COPPICE_SCHEMA:-coppice}".job_id'). A file neither creates nor drops
// the schema: the version table is in it. A file that builds an index
// CONCURRENTLY says NO TRANSACTION and does nothing else.
package migrations
