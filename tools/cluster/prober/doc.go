// SPDX-License-Identifier: Apache-2.0

// Command prober runs in the pods of 'cluster faults'. It answers probes, counts
// those that policy denies, and sends probes to the targets in a file. It prints lines of JSON, of
// the type Line of package probe.
//
// # Usage
//
//	prober --name POD [--targets FILE] [--interval 20ms]
//
// # Concurrency
//
// Each flow has a goroutine, and each port of the server. They share the printer and the counter of
// leaks, which have locks.
//
// # Errors
//
// It ends with exit code 1 if it cannot listen. A target that cannot be reached is a loss, not an
// error.
package main
