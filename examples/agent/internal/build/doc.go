// SPDX-License-Identifier: Apache-2.0

// Package build returns the version of the source from which the running binary was built.
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
// Read returns no errors: an unknown value is the text "unknown".
package build
