// SPDX-License-Identifier: Apache-2.0

// Package interfaces watches the network interfaces of one network namespace. It provides their
// names, states and addresses as a Snapshot, and a new Snapshot whenever something changes.
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
// If several goroutines of your program read the current snapshot, store it in an atomic pointer.
//
// # Concurrency
//
// Watch calls your function on the goroutine that called Watch. Changes that happen while the
// function runs are in the next snapshot. Snapshots are immutable and may be shared by any number
// of goroutines.
//
// # Errors
//
// Watch returns the error of its context, or an error that says why it cannot receive the kernel's
// notifications. After an error, the caller may call Watch again. On systems other than Linux, the
// error is errors.ErrUnsupported.
package interfaces
