// SPDX-License-Identifier: Apache-2.0

// Package alike finds pods that policy cannot tell apart, such as the replicas of a workload, and
// one address for every part of the address space that policy can tell from the rest. What holds
// for one of a group holds for all, so that a question need not be asked for each.
//
// # Usage
//
//	space := alike.NewSpace(before, after)
//	for _, group := range space.Groups(pods) { ... }
//	for _, outside := range space.Outside() { ... }
//
// Two pods are alike if they are in one namespace, have the same labels, profiles, named ports and
// settings, and if no network that any rule, network set, node or host endpoint mentions has the
// address of one and not of the other, and if they are backends of the same services; in each of
// the worlds. Pods that share an address with somebody are alike to nobody.
//
// # Concurrency
//
// A Space does not change after NewSpace and may be used by several goroutines, as long as nobody
// changes the worlds.
//
// # Errors
//
// There are none.
package alike
