// SPDX-License-Identifier: Apache-2.0

// Package txtar reads and writes archives of small text files for tests. An archive is a text:
// first a comment, then the files. Before each file, there is a line "-- name --".
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
// There are none, because every text is an archive. A text without a line "-- name --" is an
// archive with a comment and no files.
package txtar
