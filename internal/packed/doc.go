// SPDX-License-Identifier: Apache-2.0

// Package packed keeps resources in little memory, for those who hold all of a cluster and seldom
// look at any.
//
// Most of what a node is told of are the endpoints of other nodes. As a policy.WorkloadEndpoint
// each takes some 700 bytes, the map of its labels half of that. Packed, it is two strings: what it
// has in common with the other replicas of its workload, which is in memory once, and what is its
// own.
//
//	namespace, labels, ports, profiles ─▶ common, once for all that have the same
//	node ───────────────────────────────▶ once for all that have the same
//	name, interface, addresses, ... ────▶ own
//
// # Usage
//
// Pack makes an Object of a resource and Object.Unpack makes an equal resource of that. An endpoint
// is packed; resources of other kinds are kept as they are. Index is a map by key that keeps what
// keys have in common once.
//
// # Concurrency
//
// An Object never changes and may be shared. An Index belongs to one goroutine at a time, like a
// map.
//
// # Errors
//
// Nothing here fails: every endpoint can be packed, valid or not.
package packed
