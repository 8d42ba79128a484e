// SPDX-License-Identifier: Apache-2.0

// Package readback reads a table of the kernel and compares it with the desired state. It writes
// nothing.
//
//	nf_tables ──dump──▶ chains, rules, sets, elements ──compare──▶ Difference ──▶ package applier
//	                                                       ▲
//	ruleset.State ──package encode──▶ what we would write ─┘
//
// A rule is the desired one if its userdata has the hash of what we would write, and the kernel lists
// the expressions that we would write, names of chains and sets included. Of a set, the type and every
// element are compared.
//
// # Usage
//
//	r := readback.New(conn, ruleset.FamilyINet, "mine")
//	d, handles, err := r.Compare(state)
//	if !d.None() { ... } // d.Repair makes the kernel's table the desired one
//
// The result is one state of the kernel's table only if the generation of the ruleset did not change
// meanwhile.
//
// # Concurrency
//
// A Reader is for one goroutine at a time, and uses its connection.
//
// # Errors
//
// Those of nfnl.Conn.Dump. One that is unix.EINTR or unix.ENOENT means that the table changed
// meanwhile.
package readback
