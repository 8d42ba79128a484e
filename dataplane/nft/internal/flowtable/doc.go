// SPDX-License-Identifier: Apache-2.0

// Package flowtable installs a flowtable. With it, packets of established connections of workloads
// take the kernel's fast path.
//
//	workload or uplink ─▶ ingress ─┬─ in the flowtable ─────────────────────────────▶ out
//	                               └─ otherwise ─▶ all chains ─▶ forward: flow add ─▶ out
//
// A packet on the fast path bypasses all chains, routing and connection tracking. So the caller
// must delete the table before each change that affects established connections, and install it
// again afterwards. In between, all packets traverse the chains, and none is lost. When the chains
// next accept a packet of a connection, the connection is on the fast path again.
//
// The flowtable is in a separate nftables table. So the deletion of this table removes all
// connections from the fast path.
//
// # Usage
//
//	t, err := flowtable.New(flowtable.Config{PolicyTable: "wayleave", Uplinks: []string{"eth0"}})
//	err = t.Delete()              // before a change
//	err = t.Install(own, devices) // after it, and after a grace period
//
// # Concurrency
//
// A Table is not safe for concurrent use.
//
// # Errors
//
// Errors name the table and wrap the kernel's error. If the kernel has no flowtables, or cannot
// remove a single connection from a flowtable, Install returns a *dataplane.FeatureError and
// installs no table. On systems other than Linux, New returns errors.ErrUnsupported.
package flowtable
