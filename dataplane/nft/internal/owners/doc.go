// SPDX-License-Identifier: Apache-2.0

// Package owners tracks which workload endpoint owns each address. It ends the connections of an
// address before a new owner gets the address.
//
// When a connection of an address began, the policy of the address's owner at that time allowed it.
// The table accepts later packets of this connection without evaluating policy again. So when the
// address moves to another endpoint, this package makes two transactions. After the first one, it
// ends the connections of the address (case S168 of docs/semantics.md):
//
//	remove old owner,  ─▶ grace period ─▶ end connections ─▶ admit new owner
//	withhold new owner    until no packet
//	                      of the old owner
//	                      is in flight
//
// To withhold a new owner, the first transaction programs it as if it were down. Its packets are
// then dropped. In two cases, one transaction is enough:
//
//   - The address has no new owner. Then its connections end after the transaction.
//   - The address has no former owner and no connections.
//
// An address that is new on this node may already have connections, because another host uses or
// used it. Such an address counts as moved.
//
// An endpoint may also send from the prefixes of its AllowedSources. The package takes the same
// steps for a prefix that moves.
//
// # Usage
//
//	tracker := owners.New()
//	tracker.Update(batch)
//	errs, done := tracker.Handover(ctx, kernel)
//
// Before the first Handover, call Adopt if the kernel has the table of an earlier process. Adopt
// compares the owners with the owners in that table.
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
