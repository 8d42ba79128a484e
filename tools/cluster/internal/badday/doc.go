// SPDX-License-Identifier: Apache-2.0

// Package badday judges what the probers of the bad days measured: it reads their lines from the
// log folders of nodes, attributes losses to what Kubernetes itself loses, and writes a table.
//
// # Usage
//
//	var logs badday.Logs
//	err := logs.Read(folder, tally.Add) // again and again, during a day
//	...
//	badday.WriteTable(os.Stdout, days)
//
// # Concurrency
//
// A value of this package may be used by one goroutine at a time.
//
// # Errors
//
// Reading returns the errors of files. A line that is no report is an error, too: a prober prints
// nothing else.
package badday
