// SPDX-License-Identifier: Apache-2.0

// Package match makes the nftables matches of a policy rule.
//
// One policy rule may become several nftables rules, called alternatives. A packet matches the
// policy rule if and only if it matches one of the alternatives. The reasons for alternatives are:
//
//   - Family: nftables has different fields for the addresses of IPv4 and IPv6.
//   - Protocol: negated ports also match packets of protocols without ports. But an nftables rule
//     that reads the ports must be limited to protocols with ports. So the other protocols need an
//     alternative.
//   - Header fields: each range of values needs a comparison of its own.
//   - Ports: on each side, numeric ports need one lookup, and named ports need another.
//   - IP sets: the kernel has the addresses of an IP set in one set, and its prefixes in another.
//     Each of the two needs a lookup, unless it is empty.
//
// Merge joins neighbouring rules that differ only in one list. An Owner is the policy or profile to
// which a rule belongs.
//
// The functions in fields.go list the fields of dataplane.Rule that this package renders. If
// dataplane.Rule gets a new field, it must be added there. Until then, rules that use the field
// cannot be rendered.
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
