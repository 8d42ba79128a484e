// SPDX-License-Identifier: Apache-2.0

// Package readback reads a table from the kernel and compares it with the desired state. It writes
// nothing.
//
//	nf_tables ──dump──▶ chains, rules, sets, elements ──compare──▶ Difference ──▶ package applier
//	                                                       ▲
//	ruleset.State ──package encode──▶ what we would write ─┘
//
// Package encode encodes each desired rule as it would be written. The rule in the kernel is equal
// if two conditions hold. Its userdata has the hash of the encoded rule. And its expressions are
// equal, with the names of the chains and sets that they refer to. A set is equal if its type and
// all its elements are.
//
// # Usage
//
//	r := readback.New(conn, ruleset.FamilyINet, "mine")
//	d, handles, err := r.Compare(state)
//	if !d.None() { ... } // d.Repair makes the kernel's table the desired one
//
// If the generation of the ruleset changes during Compare, the result may mix several states of the
// kernel's table. nfnl.Conn.Generation returns the generation.
//
// # Concurrency
//
// Only one goroutine at a time may use a Reader. The Reader uses its connection.
//
// # Errors
//
// Functions return the errors of nfnl.Conn.Dump. unix.EINTR and unix.ENOENT mean that the table
// changed while it was read.
package readback
