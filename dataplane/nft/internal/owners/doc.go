// SPDX-License-Identifier: Apache-2.0

// Package owners tracks which workload endpoint owns each address. It ends the connections of an
// address before a new owner gets the address.
//
// When an address moves to another endpoint, its connections must end (S168), because policy
// allowed them for the former owner. The table accepts established connections before policy. So
// the connections are ended between two transactions:
//
//	remove old owner ─▶ grace period ─▶ end connections ─▶ admit new owner
//	(new owner drops)   no packet of
//	                    the old owner
//	                    is in flight
//
// In the first transaction, each new owner is withheld: it is programmed as if it were down. One
// transaction is enough in these cases:
//
//   - The address has no new owner. Then its connections end after the transaction.
//   - The address has no former owner and no connections.
//
// If an address has no former owner but connections, another host may still use the address. Then
// the address is treated as moved.
//
// All this also holds for a prefix that moves from the AllowedSources of one endpoint to those of
// another.
//
// # Usage
//
//	tracker := owners.New()
//	tracker.Update(batch)
//	errs, done := tracker.Handover(ctx, kernel)
//
// Before the first Handover, call Adopt. It compares the owners with those in the table of an
// earlier process.
//
// # Concurrency
//
// Only one goroutine at a time may use a Tracker.
//
// # Errors
//
// Connections that cannot be ended are reported as *dataplane.ApplyError with the key of an endpoint.
package owners
