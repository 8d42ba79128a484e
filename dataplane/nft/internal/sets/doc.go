// SPDX-License-Identifier: Apache-2.0

// Package sets has the desired sets of the nftables table for the renderer, and makes the names of
// sets and chains. These types have sets:
//
//   - An IPSet has the members of an IP set: addresses, prefixes, and ports of addresses. For each
//     of these kinds and each family, an IPSet can have one nftables set.
//   - An ElementSet is one nftables set or map. The renderer adds and removes its elements one by
//     one.
//   - Lists has an nftables set for each list of prefixes or port ranges in rules. It also counts
//     the rules that reference each set, including the sets of an IPSet.
//
// IPSet, ElementSet and Lists have a method Flush. It appends to a ruleset.Delta the changes since
// the last Flush:
//
//	dataplane.IPSetUpdate ─▶ IPSet ──┐
//	rules' prefixes and ports ─▶ Lists ──┼─▶ ruleset.Delta
//	interfaces, addresses ─▶ ElementSet ──┘
//
// Chains has the chains of the table, together with the Lists of their rules.
//
// # Usage
//
// An nftables set of an IPSet exists only while rules reference the set. The type Lists counts
// these rules. ComputeShape returns true if rules that refer to the IP set must be rendered again.
// For example, ComputeShape returns true after the IP set has got its first prefix.
//
//	chains := sets.NewChains()
//	s := sets.NewIPSet(id, &chains.Lists)
//	s.Replace(update)
//	if s.ComputeShape() {
//		// render the rules that refer to s again
//	}
//	s.Flush(&delta)
//
// # Concurrency
//
// The types are not safe for concurrent use.
//
// # Errors
//
// IPSet.Check returns an error if rules must not refer to the IP set, for example because a member
// does not fit the set's type.
package sets
