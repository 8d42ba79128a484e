// SPDX-License-Identifier: Apache-2.0

// Package txtar reads and writes archives of small text files for tests: a comment, then files,
// each after a line "-- name --".
//
// # Usage
//
//	a := txtar.Parse(data)
//	for _, f := range a.Files { ... }
//	data = txtar.Format(a)
//
// # Concurrency
//
// Everything is plain data.
//
// # Errors
//
// There are none: every text is an archive. Without a marker line, it is only a comment.
package txtar
