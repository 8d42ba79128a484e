// SPDX-License-Identifier: Apache-2.0

// Package classify maps addresses to classes, so that rules need one lookup for many conditions.
//
//   - A Predicate is a condition that rules test: an address is in an IP set or in a list of
//     prefixes.
//   - A Class is all addresses of a family that satisfy the same predicates.
//   - A Classifier computes the classes, and gives each of them a number. It renders the kernel's
//     maps from addresses to these numbers, and the chains that look the maps up.
//
// For each family, there is one map of full-length addresses and one map of prefixes. Rules look up
// the address of the other side: the source for ingress policy, the destination for egress policy.
//
//	address ──▶ Class (number)
//
// # Usage
//
//	c := classify.New(config)
//	p := c.Set(ipSet)
//	c.Use(p) // from now on classes follow the changes of ipSet
//	changed := func(k *classify.Class) {} // called for each class that became empty or nonempty
//	if c.Update(changed) {
//		c.Renumber()
//	}
//	c.Flush(&delta)
//	chain := c.Chain(list, field) // looks up the class of the other side's address
//
// # Concurrency
//
// Only one goroutine at a time may use a Classifier.
//
// # Errors
//
// No function returns an error.
package classify
