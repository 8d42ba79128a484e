// SPDX-License-Identifier: Apache-2.0

package conntrack

// WatchConfig configures WatchEnded.
type WatchConfig struct {
	// NetNS is a file descriptor of the network namespace, needed only until Started. Zero means that of the calling
	// thread.
	NetNS int
	// Ended is called for each flow that has ended, with its counters. Required.
	Ended func(*Flow, Counters)
	// Missed is called if the kernel had to drop notifications. Optional.
	Missed func()
	// Started is called once each flow that ends is reported. Optional.
	Started func()
}
