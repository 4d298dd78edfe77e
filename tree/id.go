package tree

import "strconv"

// ID names a job. Ids come from one sequence of the database, start at 1 and only rise; a parent's id
// is always lower than its children's. Zero names no job. The id of a tree is the id of its root.
type ID int64

// String returns the id in decimal.
func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

// WorkerID names one run of one worker process. Zero names none.
type WorkerID int64
