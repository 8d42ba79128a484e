// SPDX-License-Identifier: Apache-2.0

// Package owners tracks which workload endpoint owns each address, and ends the connections of an
// address before a new owner gets it.
//
// When an address changes hands, its connections end (S168). The table accepts established
// connections before policy, so they are ended between two transactions:
//
//	remove old owner ─▶ grace period ─▶ end connections ─▶ admit new owner
//	(new owner drops)   no packet of
//	                    the old owner
//	                    is in flight
//
// In the first transaction each new owner is withheld. One transaction suffices for an address
// without a new owner; its connections end after it. One also suffices for an address without a
// former owner and without connections. If an address without a former owner has connections, another
// host may still use it: it is treated as moved.
//
// The same holds for a prefix that moves from the AllowedSources of one endpoint to those of
// another.
//
// # Usage
//
//	tracker := owners.New()
//	tracker.Update(batch)
//	errs, done := tracker.Handover(ctx, kernel)
//
// Before the first Handover, Adopt compares the owners with those in the table of an earlier process.
//
// # Concurrency
//
// A Tracker is for one goroutine at a time.
//
// # Errors
//
// Connections that cannot be ended are reported as *dataplane.ApplyError with the key of an endpoint.
package owners
