// SPDX-License-Identifier: Apache-2.0

// Package owners tracks which workload endpoint owns each address. It ends the connections of an
// address before a new owner gets the address.
//
// When an address moves to another endpoint, its connections must end (case S168 of
// docs/semantics.md), because policy allowed them for the former owner. Policy does not deny their
// later packets, because the table accepts established connections before policy. So this package
// ends the connections between two transactions:
//
//	remove old owner ─▶ grace period ─▶ end connections ─▶ admit new owner
//	(new owner drops)   no packet of
//	                    the old owner
//	                    is in flight
//
// The first transaction withholds each new owner: the owner is programmed as if it were down, so
// its packets drop. In two cases, one transaction is enough:
//
//   - The address has no new owner. Then its connections end after the transaction.
//   - The address has no former owner and no connections.
//
// An address may have connections although it has no former owner on this node: another host may
// have used it before, or may still use it. The package treats such an address as moved.
//
// An endpoint may also send from the prefixes of its AllowedSources. If a prefix moves from one
// endpoint to another, the package takes the same steps for the prefix.
//
// # Usage
//
//	tracker := owners.New()
//	tracker.Update(batch)
//	errs, done := tracker.Handover(ctx, kernel)
//
// Before the first Handover, call Adopt if the kernel has the table of an earlier process. Adopt
// compares the owners with those in that table.
//
// # Concurrency
//
// Only one goroutine at a time may use a Tracker.
//
// # Errors
//
// If connections of an address cannot be ended, the error is a *dataplane.ApplyError with the key
// of the address's new owner. If there is no new owner, it has the key of the former one.
package owners
