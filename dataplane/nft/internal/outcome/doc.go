// SPDX-License-Identifier: Apache-2.0

// Package outcome compiles policy into lookups, so that the cost of a new connection does not
// depend on the number of policies.
//
// The terms:
//
//   - A predicate is a condition of a rule on an address: the address must be in an IP set or in a
//     list of prefixes.
//   - A class consists of all addresses that satisfy the same predicates: see package classify.
//   - A Group is the endpoints with the same tiers and profiles in one direction, at one stage. A
//     stage is untracked policy, pre-DNAT policy or normal policy.
//   - The peer of a packet is the other party of the connection, seen from the endpoint: the
//     receiver for egress policy, the sender for ingress policy.
//   - An outcome is what a group decides for the peers in a class: the rules of the group whose
//     predicates the class satisfies, and the chain to which they compile. The chain has a few
//     rules on protocols and ports.
//   - A plain rule has conditions only on the address of the peer, the protocol and the destination
//     port. The plain rules of an outcome are merged into lookups by protocol and port. Every other
//     rule becomes a rule of the chain.
//
// A packet first reaches the chain of its endpoint: from/... for a sender, to/... for a receiver.
// From there, it passes these chains, where DIR is ingress or egress:
//
//	from/..., to/... ──▶ group-DIR/... ──▶ classify-DIR
//	                                       class of the other side
//	Dispatch         ──▶ outcome-DIR/...
//	                     outcome of the group for the class
//
// The chain classify-DIR finds the class of the peer's address. The chain group-DIR/... maps the
// class to its outcome. If Policy.Return is set, the packet then returns to the chain that jumped
// to the endpoint's chain. There, the rule Dispatch jumps to the chain outcome-DIR/... of this
// outcome. Otherwise, the chain group-DIR/... itself leads to that chain.
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
// Group.Err returns the errors of a group's policy. If there are any, all packets of the group's
// endpoints must be dropped.
package outcome
