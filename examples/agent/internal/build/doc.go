// SPDX-License-Identifier: Apache-2.0

// Package build says what the running binary was built from.
//
// # Usage
//
//	fmt.Println(build.Read())
//
// # Concurrency
//
// Read is safe for concurrent use.
//
// # Errors
//
// There are none: what is not known is "unknown".
package build
