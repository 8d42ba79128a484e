// SPDX-License-Identifier: Apache-2.0

// Package node builds a small node out of network namespaces, for the agent's command demo. There
// is one namespace for the node, one for each workload, and one for an outside host. Veth pairs
// connect the node with the others.
//
//	shop/web eth0 ══ way… ┐
//	 data/db eth0 ══ way… ┤ node ── uplink ══ eth0 outside
//	      …  eth0 ══ way… ┘
//
// The node is in the state in which a CNI plugin and an administrator leave a node before an agent
// starts. It has links and addresses, but no routes to workloads and no policy.
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
