// SPDX-License-Identifier: Apache-2.0

// Command benchmarks records the results of benchmarks as data, and renders pages and charts from them.
//
//	docs/benchmarks/catalogue.yaml      sections: commands, text, rows with targets and peers; charts
//	             |                          |
//	             v record                   |
//	docs/benchmarks/results.json            |
//	             |                          |
//	             +-----------+--------------+
//	                         v page
//	docs/benchmarks.md, docs/performance.md, docs/pictures/bench-*.svg
//
// # Usage
//
//	benchmarks list                  list the sections, and when each was recorded
//	benchmarks record SECTION...     run the commands of sections, save the results, render the pages
//	benchmarks page                  render the pages again
//
// A command of a section is a line for the shell that prints results of benchmarks as `go test -bench` does. Each
// result has a name, and figures with units. Of several runs, the minimum and the median are kept. A benchmark that
// reports its own as "min-UNIT" or "UNIT-min", and "median-UNIT" or "UNIT-median", has them taken over.
//
// # Concurrency
//
// The program runs one command at a time: two benchmarks would slow each other down.
//
// # Errors
//
// If a command fails or prints no result, nothing of its section is saved. A row of a recorded section without a result
// is an error of all commands that render the pages, which they write nevertheless.
package main
