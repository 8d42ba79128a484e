// SPDX-License-Identifier: Apache-2.0

// Package outcome compiles policy into lookups, so that the cost of a packet does not depend on the
// number of policies.
//
// The chains of a packet, from the chain of its endpoint on:
//
//	from/..., to/... ──▶ group-DIR/... ──▶ classify-DIR
//	                                       class of the other side
//	Dispatch         ──▶ outcome-DIR/...
//	                     its outcome
//
// The terms:
//
//   - A class is all addresses that satisfy the same predicates: see package classify.
//   - A Group is the endpoints with the same tiers and profiles in one direction, at one stage.
//   - An outcome is the rules of a group that hold for a class, and the chain that they compile to: a
//     few rules on protocols and ports.
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
// A Lookups is not safe for concurrent use.
//
// # Errors
//
// Group.Err returns the errors of a group's policy. The endpoints of such a group must drop.
package outcome
