// SPDX-License-Identifier: Apache-2.0

// Package interfaces watches the network interfaces of one network namespace: their names, states
// and addresses, as a snapshot that is replaced whenever something changes.
//
//	lists of links, addresses ──▶ Snapshot ──▶ changed(snapshot)
//	                                 ▲
//	multicast: links, addresses ─────┘   (dropped messages: the lists are read again)
//
// # Usage
//
//	err := interfaces.Watch(ctx, interfaces.Config{}, func(s *interfaces.Snapshot) {
//		for _, i := range s.All() { ... }
//	})
//
// A program with several readers keeps the snapshot in an atomic pointer.
//
// # Concurrency
//
// Watch calls back on the goroutine that it was called on. While a callback runs, changes gather;
// they are in the next snapshot. Snapshots are immutable and may be shared by any number of
// goroutines.
//
// # Errors
//
// Watch returns the error of its context, or why the kernel cannot be listened to; the caller may
// call it again. Where the system is not Linux that is errors.ErrUnsupported.
package interfaces
