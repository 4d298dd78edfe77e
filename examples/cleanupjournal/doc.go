// Package cleanupjournal is an example of the pattern "journal first": before a thing is removed, the job that cleans up after it
// is written, in the same transaction, with everything that it will need. A library keeps albums as rows of a table and
// as folders of files. Removing an album takes its row away and leaves the files to a job; whatever dies in between, the
// files are either an album's or a job's. docs/recipes.md has the reasons, step by step.
//
// What lives here: the library, the plan of a cleanup, its handler and its guard. What does not: the program, which
// is in cmd.
package cleanupjournal
