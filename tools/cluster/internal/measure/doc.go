// SPDX-License-Identifier: Apache-2.0

// Package measure has the types that the programs gauge and cluster exchange as JSON.
//
// # Usage
//
//	gauge connect --to 10.244.1.5 --time 5s      # prints Connections
//	gauge watch --until denied 10.244.1.5 ...    # prints Changes
//	gauge write ... POST PATH < OBJECT           # prints Write
//
// # Concurrency
//
// The functions may be called concurrently. Quantile sorts its argument.
//
// # Errors
//
// No function returns an error.
package measure
