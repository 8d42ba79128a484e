// SPDX-License-Identifier: Apache-2.0

// Package fieldwalk walks the fields of a value. It is for tests that fail if a type gets a field that a function does
// not process.
//
// # Usage
//
//	fieldwalk.Fill(reflect.ValueOf(&rule).Elem(), policy.PortRange(80, 90))
//	for _, c := range fieldwalk.Changes(reflect.ValueOf(&other).Elem()) {
//		c.Do() // and now rule.Equal(&other) must be false; c.Path names the field
//	}
//
// # Concurrency
//
// The package is not safe for concurrent use.
//
// # Errors
//
// There are none. The package is for tests: it panics on a type that it cannot fill or change.
package fieldwalk
