// SPDX-License-Identifier: Apache-2.0

// Package sets keeps the kernel's sets for the renderer: those of IP sets (IPSet), those whose elements
// the renderer chooses one by one (ElementSet), and those of the ranges that rules list (Lists). Chains
// has the chains of the table together with Lists. The package also makes the names of sets and chains.
//
//	dataplane.IPSetUpdate ─▶ IPSet ──┐
//	rules' prefixes and ports ─▶ Lists ──┼─▶ ruleset.Delta
//	interfaces, addresses ─▶ ElementSet ──┘
//
// Flush of each appends its changes since the last Flush to a delta.
//
// # Usage
//
//	chains := sets.NewChains()
//	s := sets.NewIPSet(id, &chains.Lists)
//	s.Replace(update)
//	if s.Settle() {
//		// rules that refer to s are rendered again
//	}
//	s.Flush(&delta)
//
// # Concurrency
//
// Nothing here is safe for concurrent use.
//
// # Errors
//
// IPSet.Check returns why no rule may refer to an IP set.
package sets
