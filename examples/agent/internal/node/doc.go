// SPDX-License-Identifier: Apache-2.0

// Package node builds a small node for the demo: a network namespace for the node itself, one for
// each workload, and one for a host outside, joined by veth pairs.
//
//	shop/web eth0 ══ way… ┐
//	 data/db eth0 ══ way… ┤ node ── uplink ══ eth0 outside
//	      …  eth0 ══ way… ┘
//
// It has what a CNI plugin and an administrator set up before an agent starts: links and addresses, but no routes to
// workloads and no policy.
//
// # Usage
//
//	n, err := node.Build(endpoints, node.Party{Name: "outside", Addresses: addrs})
//	...
//	defer n.Close()
//
// # Concurrency
//
// A Node does not change after Build, and may be used by several goroutines until Close.
//
// # Errors
//
// Errors name the party and wrap the kernel's errno.
package node
