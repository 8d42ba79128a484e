// SPDX-License-Identifier: Apache-2.0

// Package fieldwalk fills and changes each field of a value. With it, a test can check that a
// function such as Equal considers every field. When somebody adds a field to the type, but does
// not extend the function, the test fails.
//
// # Usage
//
// A change may replace memory to which the other changes of the same value refer. So for each
// change, a test fills the value again, and calls Changes again. The example leaves this out:
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
