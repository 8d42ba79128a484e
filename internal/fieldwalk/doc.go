// SPDX-License-Identifier: Apache-2.0

// Package fieldwalk fills and changes each field of a value. With it, a test can check that a
// function such as Equal considers every field. When somebody adds a field to the type, but does
// not extend the function, the test fails.
//
// # Usage
//
//	fieldwalk.Fill(reflect.ValueOf(&rule).Elem(), policy.PortRange(80, 90))
//	for _, c := range fieldwalk.Changes(reflect.ValueOf(&other).Elem()) {
//		c.Do() // and now rule.Equal(&other) must be false; c.Path names the field
//	}
//
// A test must make each change on a value that it has filled anew: see Changes.
//
// # Concurrency
//
// The package is not safe for concurrent use.
//
// # Errors
//
// There are none. The package is for tests: it panics on a type that it cannot fill or change.
package fieldwalk
