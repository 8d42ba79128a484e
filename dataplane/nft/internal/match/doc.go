// SPDX-License-Identifier: Apache-2.0

// Package match makes the matches of nftables for a rule of policy. An Owner is the policy or
// profile to which the rule belongs.
//
// One rule of policy may become several rules of nftables, its alternatives. A packet matches the
// rule if and only if it matches one of them. There are several reasons for alternatives:
//
//   - Family: nftables has different fields for IPv4 and IPv6.
//   - Protocol: negated ports match packets of protocols without ports. A rule that reads the ports
//     of such a packet may fail.
//   - Header fields: each range of values needs a comparison of its own.
//   - Ports: numeric and named ports need two lookups, on each side.
//   - IP sets: the addresses and the prefixes of an IP set are in two sets of the kernel, and each
//     needs a lookup. If no member is an address, there is no lookup of addresses, and the same for
//     prefixes.
//
// Merge joins neighbouring rules that differ in one list. The functions of fields.go list the
// fields of a rule that they know. So a new field of dataplane.Rule is unknown until it is added
// there, and rules with the field cannot be rendered.
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
