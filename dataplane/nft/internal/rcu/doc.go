// SPDX-License-Identifier: Apache-2.0

// Package rcu waits until packets that are under way have left the kernel.
//
// Netfilter handles each packet in one read-side critical section of RCU, from reception to
// transmission. So when a grace period ends, every packet that was under way at its beginning has
// left the kernel. No later packet uses rules, elements or connections that were replaced before
// the grace period.
//
// # Usage
//
//	commit(transaction)
//	err := rcu.Synchronize()
//
// After this, no packet that used the rules from before the transaction is still under way.
//
// Supported reports in advance whether Synchronize works.
//
// # Concurrency
//
// Synchronize and Supported may be called from any goroutine.
//
// # Errors
//
// Synchronize fails at once if membarrier(2) is refused: by the seccomp filter of a container, with
// nohz_full processors, or on systems other than Linux.
package rcu
