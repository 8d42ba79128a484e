// SPDX-License-Identifier: Apache-2.0

// Package recording keeps what the agent saw in a file, as package calcgraph/replay reads it.
// Whatever happens to the disk, the file ends with a whole line, and nothing but the recording
// ends.
//
// # Usage
//
//	file, err := recording.Create("/var/lib/wayleave/recording", 1<<30)
//	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{Record: file, ...})
//	...
//	err = file.Close()
//
// A file that is there already is kept beside as PATH.1, in place of the one that was there: what
// an agent did not survive is to be read after its restart.
//
// # Concurrency
//
// A File is for one goroutine.
//
// # Errors
//
// Write fails for good once the disk does or the file is as large as it may be; what of a line was
// written is cut off then.
package recording
