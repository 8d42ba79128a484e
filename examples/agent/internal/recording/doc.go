// SPDX-License-Identifier: Apache-2.0

// Package recording writes the input of the agent's graph to a file, in the format of package calcgraph/replay. If the
// disk fails or is full, the file ends with a complete line, and only the recording ends.
//
// # Usage
//
//	file, err := recording.Create("/var/lib/wayleave/recording", 1<<30)
//	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{Record: file, ...})
//	...
//	err = file.Close()
//
// An existing file is renamed to PATH.1, and replaces an earlier one of that name. So after a crash and a restart, the
// recording of the crash still exists.
//
// # Concurrency
//
// A File is for one goroutine.
//
// # Errors
//
// After a failure of the disk, or at the maximum size of the file, every Write fails. An incomplete last line is
// removed.
package recording
