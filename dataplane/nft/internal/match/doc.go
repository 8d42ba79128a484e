// SPDX-License-Identifier: Apache-2.0

// Package match makes the matches of nftables from a rule of policy. An Owner is the policy or profile that
// has the rules.
//
// A rule becomes several rules of nftables, its alternatives. A packet matches the rule if and only if
// it matches one of them. Several are needed because of
//
//   - the family: nftables has different fields for IPv4 and IPv6;
//   - the protocol: negated ports match packets of protocols without ports, and a rule that reads the
//     ports of such a packet may fail;
//   - header fields: each range of values is a comparison;
//   - ports: numeric and named ports are two lookups, on each side;
//   - IP sets: addresses and prefixes are two sets of the kernel. An empty one does not exist.
//
// Merge joins neighbouring rules that differ in one list. The functions of fields.go know the fields of
// a rule by inclusion: a new field of dataplane.Rule is unknown, and rules that have it fail, until it
// is added there.
//
// # Usage
//
//	m := match.Matcher{Lookup: set}
//	alternatives, overlap, err := m.Alternatives(&rule)
//
// # Concurrency
//
// All functions are safe for concurrent use if the rules and IP sets do not change meanwhile.
//
// # Errors
//
// Check and Alternatives return why a rule cannot be rendered.
package match
