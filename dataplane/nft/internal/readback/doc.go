// SPDX-License-Identifier: Apache-2.0

// Package readback reads a table from the kernel and compares it with the desired state. It writes
// nothing.
//
//	nf_tables ──dump──▶ chains, rules, sets, elements ──compare──▶ Difference ──▶ package applier
//	                                                       ▲
//	ruleset.State ──package encode──▶ what we would write ─┘
//
// A rule is equal to the desired one if two conditions hold. Its userdata has the hash of what we
// would write. And the kernel lists the expressions that we would write, with the names of chains
// and sets. A set is compared by its type and every element.
//
// # Usage
//
//	r := readback.New(conn, ruleset.FamilyINet, "mine")
//	d, handles, err := r.Compare(state)
//	if !d.None() { ... } // d.Repair makes the kernel's table the desired one
//
// If the generation of the ruleset changes meanwhile, the result may mix several states of the
// kernel's table.
//
// # Concurrency
//
// Only one goroutine at a time may use a Reader. The Reader uses its connection.
//
// # Errors
//
// Functions return the errors of nfnl.Conn.Dump. unix.EINTR and unix.ENOENT mean that the table
// changed meanwhile.
package readback
