// SPDX-License-Identifier: Apache-2.0

// Package classify maps addresses to classes. A Predicate is a condition of rules on an address:
// membership in an IP set or in a list of prefixes. A Class is all addresses of a family that
// satisfy the same predicates. A Classifier computes the classes and gives each a number. It
// renders the kernel's maps from addresses to these numbers, and the chains that look them up.
//
//	address ──▶ Class (number)  one map of full-length addresses, one of prefixes, for each family
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
// A Classifier is for one goroutine at a time.
//
// # Errors
//
// No function returns an error.
package classify
