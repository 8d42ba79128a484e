// SPDX-License-Identifier: Apache-2.0

// Package revoke ends connections that policy allowed when they began, and now denies. A Revoker
// receives the changes of the nftables table. For each connection, it compares the verdict before a
// change with the verdict after the change. An Evaluator computes a verdict: it simulates the
// connection's first packet.
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
// Stats of a Revoker may be called from any goroutine. Only one goroutine at a time may call the
// other methods of a Revoker. Only one goroutine at a time may use an Evaluator, but a clone is
// independent of its original.
//
// # Errors
//
// A connection continues if its verdict is unknown, or if the kernel refuses to end it. The Stats
// count such connections, and the log has the error. If a change cannot be applied to the Revoker's
// copy of the table, the Revoker ends no connection until Changed receives a whole table.
package revoke
