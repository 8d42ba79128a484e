// SPDX-License-Identifier: Apache-2.0

// Package rcu waits for the packets that are under way in the kernel.
//
// Netfilter handles each packet from reception to transmission in one read-side critical section of
// RCU. After a grace period, every packet that was under way at its start has left the kernel. So
// no packet uses rules, elements or connections that were replaced before it.
//
// # Usage
//
//	commit(transaction)
//	err := rcu.Synchronize()
//	// No packet is under way that was judged by the rules before the transaction.
//
// Supported says beforehand whether Synchronize works.
//
// # Concurrency
//
// Synchronize and Supported may be called from any goroutine.
//
// # Errors
//
// Synchronize fails at once where membarrier(2) is refused: by a container's seccomp filter, with
// nohz_full processors, and on systems other than Linux.
package rcu
