// SPDX-License-Identifier: Apache-2.0

// Package revoke ends denied connections. A Revoker receives the changes of the table. For each
// connection it compares the verdict before a change with the verdict after it. An Evaluator
// computes such a verdict by simulation.
//
// # Usage
//
//	r, err := revoke.New(revoke.Config{Conntrack: sweeps, Table: "wayleave", Host: chains})
//	r.Changed(delta, nil)    // before the transaction
//	r.Programmed(addresses)  // after it
//	defer r.Close()
//
// # Concurrency
//
// The methods of a Revoker are for one goroutine at a time, except Stats. An Evaluator is for one
// goroutine at a time; its clones are independent.
//
// # Errors
//
// A connection that cannot be judged or ended is counted and goes on; the log has the error. After
// a change that cannot be applied, no connection ends until Changed gets a whole table.
package revoke
