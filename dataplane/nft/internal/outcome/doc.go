// SPDX-License-Identifier: Apache-2.0

// Package outcome compiles policy into lookups, so that the cost of a new connection does not
// depend on the number of policies.
//
// The terms:
//
//   - A predicate is a condition of rules on an address: membership in an IP set or in a list of
//     prefixes.
//   - A class is all addresses that satisfy the same predicates: see package classify.
//   - A Group is the endpoints with the same tiers and profiles in one direction, at one stage. A
//     stage is untracked policy, pre-DNAT policy or normal policy.
//   - An outcome is what a group decides for a class: the rules of the group that hold for the
//     class, and the chain to which they compile. The chain has a few rules on protocols and ports.
//   - A plain rule matches, besides addresses of the other side, at most protocol and destination
//     ports. Plain rules are merged into lookups by protocol and port. Each other rule stays a rule
//     of the chain.
//
// From the chain of its endpoint, from/... or to/..., a packet passes these chains:
//
//	from/..., to/... ──▶ group-DIR/... ──▶ classify-DIR
//	                                       class of the other side
//	Dispatch         ──▶ outcome-DIR/...
//	                     outcome of the group for the class
//
// The chain classify-DIR finds the class of the address of the other side. The chain group-DIR/...
// maps the class to its outcome. The rule Dispatch jumps to the chain outcome-DIR/... of this
// outcome.
//
// A group whose cost is over a limit has no outcomes: its endpoints need chains of rules.
//
// # Usage
//
//	l.SetPolicy(owner)                  // for each changed policy and profile
//	g := l.Join(endpoint, Policy{...})  // for each list of each changed endpoint
//	l.Update()                          // calls Config.Changed for endpoints
//	l.Flush(delta)
//
// # Concurrency
//
// Only one goroutine at a time may use a Lookups.
//
// # Errors
//
// Group.Err returns the errors of a group's policy. The endpoints of such a group must drop.
package outcome
