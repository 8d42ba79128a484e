// SPDX-License-Identifier: Apache-2.0

// Package outcome compiles policy into lookups, so that the cost of a new connection does not
// depend on the number of policies.
//
// The terms:
//
//   - The peer of a packet is the other party of the connection, seen from the endpoint. The peer
//     is the receiver for egress policy, and the sender for ingress policy.
//   - A predicate is a condition that rules test: an address is in an IP set or in a list of
//     prefixes.
//   - A class consists of all addresses that satisfy the same predicates: see package classify.
//   - A stage is a place on a packet's way where policy is evaluated: first untracked, then
//     pre-DNAT, then normal policy (all other policy).
//   - A Group consists of all endpoints that have the same tiers and profiles in one direction at
//     one stage.
//   - An outcome consists of the rules of a group that can match the addresses of a class. They are
//     compiled to a short chain, with a few rules on protocols and ports.
//   - A plain rule has conditions only on the address of the peer, the protocol and the destination
//     port. The plain rules of an outcome are merged into lookups by protocol and port. Every other
//     rule becomes a rule of the chain.
//
// A packet passes these chains, where DIR is ingress or egress:
//
//  1. from/... or to/... is the chain of the endpoint: from/... if the endpoint is the sender,
//     to/... if it is the receiver. This chain leads to the chain of the endpoint's group.
//  2. group-DIR/... is the chain of the group. It jumps to classify-DIR.
//  3. classify-DIR finds the class of the peer's address, and returns to the chain of the group.
//     That chain looks up the outcome of the class.
//  4. outcome-DIR/... is the chain of the outcome. It decides about the packet.
//
// If Policy.Return is set, and the peer's address satisfies a predicate of the group's rules, step
// 4 comes later. The chain of the group only writes the number of the outcome into Register. Then
// this chain returns to the caller's chain, which jumped to the chain of the endpoint. There, a
// later rule reads the number and jumps to the chain of the outcome. The function Dispatch makes
// this rule.
//
// A group whose cost is over a limit has no outcomes: its endpoints need chains of rules.
//
// # Usage
//
//	l.SetPolicy(owner)                  // for each changed policy and profile
//	g := l.Join(endpoint, Policy{...})  // for each direction and stage of each changed endpoint
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
