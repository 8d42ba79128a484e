// SPDX-License-Identifier: Apache-2.0

// Package flowtable installs a flowtable: packets of established connections of workloads take the kernel's fast path.
//
//	workload or uplink ─▶ ingress ─┬─ in the flowtable ─────────────────────────────▶ out
//	                               └─ otherwise ─▶ all chains ─▶ forward: flow add ─▶ out
//
// A packet on the fast path bypasses all chains, routing and connection tracking. So the caller deletes the table
// before each change that concerns established connections, and installs it again afterwards. In between, all packets
// traverse the chains, and none is lost. The next accepted packet of a connection puts the connection on the fast path
// again.
//
// The flowtable has a table of its own, so that one deletion takes all connections off the fast path.
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
// They name the table and wrap the kernel's error. Install returns a *dataplane.FeatureError, and installs no table, if
// the kernel has no flowtables, or cannot end connections in them. On systems other than Linux, New returns
// errors.ErrUnsupported.
package flowtable
