// SPDX-License-Identifier: Apache-2.0

// Package readback reads a table from the kernel and compares it with the desired state. It writes
// nothing.
//
//	nf_tables ──dump──▶ chains, rules, sets, elements ──compare──▶ Difference ──▶ package applier
//	                                                       ▲
//	ruleset.State ──package encode──▶ what we would write ─┘
//
// Package encode encodes each desired rule as it would be written. A rule in the kernel counts as
// equal if it has the same userdata and the same expressions. The userdata contains a hash of the
// rule. The expressions include the names of chains and of named sets. A set counts as equal if its
// type and all its elements are the same.
//
// # Usage
//
//	r := readback.New(conn, ruleset.FamilyINet, "mine")
//	d, handles, err := r.Compare(state)
//	if !d.None() { ... } // d.Repair makes the kernel's table the desired one
//
// If the ruleset changes during Compare, the result may mix several states of the kernel's table.
// To detect that, compare the result of nfnl.Conn.Generation before and after.
//
// # Concurrency
//
// Only one goroutine at a time may use a Reader. At the same time, the Reader's connection must not
// be used for anything else.
//
// # Errors
//
// Functions return the errors of nfnl.Conn.Dump. unix.EINTR and unix.ENOENT mean that the table
// changed while it was read.
package readback
