// SPDX-License-Identifier: Apache-2.0

// Package flowtable lets packets of established connections of workloads take the kernel's fast path: a flowtable.
//
//	workload or uplink ─▶ ingress ─┬─ in the flowtable ─────────────────────────────▶ out
//	                               └─ otherwise ─▶ all chains ─▶ forward: flow add ─▶ out
//
// A packet on the fast path bypasses all chains, routing and connection tracking. So the table is deleted before each
// change that concerns established connections, and installed after it. In between, all packets traverse the chains,
// and none is lost. The next accepted packet of a connection puts it on the fast path again.
//
// The flowtable has a table of its own, so that one deletion ends all flows.
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
// They name the table and wrap the kernel's error. Install returns a *dataplane.FeatureError if the kernel has no
// flowtables, or cannot end connections in them; there is no table then. On systems other than Linux, New returns
// errors.ErrUnsupported.
package flowtable
