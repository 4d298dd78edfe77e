// Package sourcestats counts a folder of source code as a tree of jobs: a job for every file, a finalizer
// for every folder, and at the root a report of the whole. Without a folder of yours it takes the source
// of the Go toolchain, some 11,500 files in 1,300 folders.
//
// [Tree] describes the work as nodes of package tree, and [Register] gives an engine the two handlers:
// [Measure] reads one file, and a folder adds up its children with a [Rollup]. [Walk] comes to the same
// [FolderStats] by a plain recursion that shares nothing with the roll-up but the reading of files,
// and [Verify] holds the two against each other. A job that ran twice, was forgotten or came in the wrong
// order shows as a difference.
//
// # What counts
//
// Only regular files and folders are looked at. Symbolic links are not followed, and neither they nor
// sockets, pipes and devices count as files. Folders are read in the order of their names, files and
// folders together, and a limit of N files means the first N in that order, depth first. What
// cannot be read, or has a name that is not UTF-8, is an error that names its path.
package sourcestats
