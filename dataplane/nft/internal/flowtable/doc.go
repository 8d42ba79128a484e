// SPDX-License-Identifier: Apache-2.0

// Package flowtable installs a flowtable, in an nftables table of its own. With the flowtable,
// packets of established connections of workloads take the kernel's fast path.
//
//	workload or uplink ─▶ ingress ─┬─ in the flowtable ─────────────────────────────▶ out
//	                               └─ otherwise ─▶ all chains ─▶ forward: flow add ─▶ out
//
// A packet on the fast path bypasses all chains, routing and connection tracking. So the caller
// must delete the table before each change that affects established connections, and install it
// again afterwards. In between, no connection is on the fast path: all packets traverse the chains,
// and no packet is lost. After Install, a connection is on the fast path again once the chains have
// accepted a packet of it.
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
// remove single connections from a flowtable, Install returns a *dataplane.FeatureError and
// installs no table. On systems other than Linux, New returns errors.ErrUnsupported.
package flowtable
