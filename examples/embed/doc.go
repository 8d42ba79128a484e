// SPDX-License-Identifier: Apache-2.0

// Command embed is the smallest program around the graph: it puts resources into a datastore in
// memory, feeds them to the graph, and prints the events that a dataplane of node n1 would get.
//
// # Usage
//
//	go run ./embed
//
// # Concurrency
//
// The source and the runner have a goroutine each; the runner calls the function Out on its own
// goroutine.
//
// # Errors
//
// If anything fails, the program prints the error and ends with exit code 1.
package main
