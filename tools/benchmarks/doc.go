// SPDX-License-Identifier: Apache-2.0

// Command benchmarks records the results of benchmarks as data, and renders pages and charts from
// them.
//
//	docs/benchmarks/catalogue.yaml      sections: commands, text, rows with targets; charts
//	             |                          |
//	             v record                   |
//	docs/benchmarks/results.json            |
//	             |                          |
//	             +-----------+--------------+
//	                         v page
//	docs/benchmarks.md, docs/performance.md, docs/pictures/bench-*.svg, blocks on other pages
//
// # Usage
//
//	benchmarks list                  list the sections, and when each was recorded
//	benchmarks record SECTION...     run the commands of sections, save the results, render the pages
//	benchmarks page                  render the pages again
//
// A command of a section is a script for bash that prints results of benchmarks as `go test -bench`
// does. It ends at the first error. In a loop `for i in 1 2 3; do`, benchmarks take turns. Each
// result has a name, and figures with units. Of several runs, the minimum and the median are kept.
// A benchmark can report its own minimum and median, as "min-UNIT" and "median-UNIT", or as
// "UNIT-min" and "UNIT-median". Then the smallest of these minima and the median of these medians
// are kept.
//
// The tables of a section may belong to a page that people write. There, they are in a block
// between two markers:
//
//	<!-- bench NAME -->
//	<!-- /bench -->
//
// # Concurrency
//
// The program runs one command at a time: two benchmarks would slow each other down.
//
// # Errors
//
// If a command fails or prints no result, nothing of its section is saved. If a recorded section
// has no result for one of its rows, `record` and `page` still write the pages, but end with an
// error.
package main
