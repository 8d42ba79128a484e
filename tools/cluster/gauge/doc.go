// SPDX-License-Identifier: Apache-2.0

// Command gauge makes the measurements for 'cluster compare', which compares implementations of
// network policy. It serves and opens connections, and measures when a policy takes effect.
//
// # Usage
//
//	gauge serve                                  # accepts TCP and echoes UDP
//	gauge connect --to ADDRESS --time 5s         # opens TCP connections, one after the other
//	gauge watch --until denied ADDRESS...        # probes all, until a policy has its effect on each
//	gauge write --server URL --ca FILE --token TOKEN METHOD PATH   # sends a request to the API; stdin is its body
//
// All commands except `gauge write` run in pods. All except `gauge serve` print one object of
// package internal/measure as JSON.
//
// # Concurrency
//
// The command `gauge watch` probes all targets at once, each probe in its own goroutine.
//
// # Errors
//
// A wrong argument, a port in use and a refused request to the API end the program with exit code
// 1. Failed connections and unanswered probes are results.
package main
