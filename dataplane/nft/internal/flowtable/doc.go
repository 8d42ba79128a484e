// SPDX-License-Identifier: Apache-2.0

// Package flowtable lets packets of established connections of workloads take the kernel's fast path: a flowtable.
//
//	workload or uplink ─▶ ingress ─┬─ in the flowtable ─────────────────────────────▶ out
//	                               └─ otherwise ─▶ all chains ─▶ forward: flow add ─▶ out
//
// A packet on the fast path meets no chain, no routing and no connection tracking. So Withdraw comes before each
// change that concerns established connections, and Offer after it: the flows lose no packet, and the next packet of
// each, if it still passes, puts it on the fast path again.
//
// The table is one of its own, because its flowtable is replaced as a whole: that ends all flows at once.
//
// # Usage
//
//	t, err := flowtable.New(flowtable.Config{PolicyTable: "wayleave", Uplinks: []string{"eth0"}})
//	err = t.Withdraw()             // before a change
//	err = t.Offer(own, devices)    // after it, and after a grace period
//
// # Concurrency
//
// A Table is not safe for concurrent use.
//
// # Errors
//
// They are those of the system calls, with the name of the table. A kernel without flowtables refuses Offer, and then
// there is no table. On systems other than Linux, New returns errors.ErrUnsupported.
package flowtable
