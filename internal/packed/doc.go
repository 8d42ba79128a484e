// SPDX-License-Identifier: Apache-2.0

// Package packed keeps resources in little memory, for programs that keep all objects of a cluster
// and rarely read them.
//
// Most objects that a node reads are endpoints of other nodes. A policy.WorkloadEndpoint takes
// about 700 bytes, half of them for the map of its labels. A packed endpoint consists of three
// strings. All replicas of a workload share the first string, and all endpoints of a node share the
// second, which is the name of the node. A shared string is in memory only once. The third string
// has the data of this endpoint alone.
//
//	namespace, labels, ports, profiles ─▶ common string, stored once for all endpoints with the same values
//	node ───────────────────────────────▶ stored once for all endpoints of the node
//	name, interface, addresses, ... ────▶ own string of each endpoint
//
// # Usage
//
// Pack packs a resource into an Object. Object.Unpack returns an equal resource. Only workload
// endpoints are packed; an Object of another kind contains the unchanged resource. Index is a map
// whose keys are those of resources. It takes less memory than a Go map, because it stores each
// kind and namespace only once.
//
// # Concurrency
//
// An Object never changes, so several goroutines may use it. An Index is for one goroutine at a
// time, like a map.
//
// # Errors
//
// Nothing here fails: every endpoint can be packed, valid or not.
package packed
