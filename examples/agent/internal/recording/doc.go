// SPDX-License-Identifier: Apache-2.0

// Package recording writes the input of the agent's calculation graph to a file, in the format of
// package calcgraph/replay. If the disk fails or is full, only the recording ends. The file then
// ends with a complete line.
//
// # Usage
//
//	file, err := recording.Create("/var/lib/wayleave/recording", 1<<30)
//	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{Record: file, ...})
//	...
//	err = file.Close()
//
// An existing file is renamed to PATH.1, and replaces an older file with that name. Therefore the
// recording of an agent that crashed still exists after a restart.
//
// # Concurrency
//
// A File is for one goroutine.
//
// # Errors
//
// If the disk fails, or if the file has reached its maximum size, every further Write fails. An
// incomplete last line is removed.
package recording
