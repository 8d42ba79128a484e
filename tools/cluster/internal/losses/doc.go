// SPDX-License-Identifier: Apache-2.0

// Package losses evaluates the results of the probers. It reads their lines from the log folders of
// nodes, attributes losses to faults of Kubernetes itself, and writes a table.
//
// # Usage
//
//	logs := losses.NewLogs(pattern)
//	defer logs.Close()
//	lines, problems, err := logs.Read() // again and again, during a scenario
//	tally.Add(lines...)
//	...
//	tally.RequireReports(client, false) // fails the scenario if the client has not reported
//	rows = append(rows, tally.Result())
//	losses.WriteTable(os.Stdout, rows)
//
// # Concurrency
//
// A value of this package may be used by one goroutine at a time.
//
// # Errors
//
// Read returns the errors of files. If a container prints anything but lines of a prober, Read
// returns this output in its list of problems, not as an error.
package losses
