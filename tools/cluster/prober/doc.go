// SPDX-License-Identifier: Apache-2.0

// Command prober runs in the pods of 'cluster faults'. It answers probes, and counts a probe as a
// leak if it arrives although policy denies it. It also sends probes to the targets in a file. It
// prints lines of JSON, of the type Line of package probe.
//
// # Usage
//
//	prober --name POD [--targets FILE] [--interval 20ms]
//
// # Concurrency
//
// There is one goroutine for each flow, for each port of the server in each family, and for each
// TCP connection that the server accepts. They share the counters and the printer, which have
// locks.
//
// # Errors
//
// It ends with exit code 1 if it cannot listen. A target that cannot be reached is a loss, not an
// error.
package main
