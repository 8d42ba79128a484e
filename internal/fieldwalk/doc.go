// SPDX-License-Identifier: Apache-2.0

// Package fieldwalk fills and changes each field of a value. With it, a test can check that a
// function such as Equal considers every field. If the type has a new field that the function does
// not consider, the test fails.
//
// # Usage
//
// The function Changes returns a list of changes. Make only one of them, because a change may
// replace memory that the others point to. For the next change, fill the value again, and call
// Changes again:
//
//	for i := range n { // n is the number of changes
//		fill(&rule)
//		fill(&other)
//		c := fieldwalk.Changes(reflect.ValueOf(&other).Elem())[i]
//		c.Do() // and now rule.Equal(&other) must be false; c.Path names the field
//	}
//
// Here, fill calls fieldwalk.Fill(reflect.ValueOf(value).Elem(), policy.PortRange(80, 90)). The
// port range is a sample: Fill sets every part of type policy.Port to this value. Without the
// sample, Fill would set all fields of a policy.Port. But a valid port has a name or numbers, not
// both. For all other parts, Fill chooses nonzero values.
//
// # Concurrency
//
// The package is not safe for concurrent use.
//
// # Errors
//
// There are none. The package is for tests: it panics on a type that it cannot fill or change.
package fieldwalk
