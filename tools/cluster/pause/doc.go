// SPDX-License-Identifier: Apache-2.0

// Command pause is the program of the container that holds a pod's namespaces: it waits until it
// receives SIGTERM or SIGINT. In a pod that shares its process namespace it is process 1, and so it
// waits for processes without a parent.
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
