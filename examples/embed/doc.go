// SPDX-License-Identifier: Apache-2.0

// Command embed is a minimal program with the calculation graph. It puts resources into a datastore
// in memory, sends them to the graph, and prints the events that a dataplane of node n1 would get.
//
// # Usage
//
//	go run ./embed
//
// # Concurrency
//
// The datastore and the runner of the graph each run on a goroutine of their own. The runner calls
// the function Out, which prints the events, on the runner's goroutine.
//
// # Errors
//
// If anything fails, the program prints the error and ends with exit code 1.
package main
