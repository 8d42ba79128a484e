// SPDX-License-Identifier: Apache-2.0

// Command pause is the program of the container that holds a pod's namespaces: it waits until it
// receives SIGTERM or SIGINT. If the containers of the pod share a process namespace, pause is
// process 1 there. So it also reaps orphaned processes.
//
// # Usage
//
// It takes no arguments.
//
// # Concurrency
//
// It has one goroutine.
//
// # Errors
//
// It has none, and always ends with exit code 0.
package main
