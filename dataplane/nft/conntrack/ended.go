// SPDX-License-Identifier: Apache-2.0

package conntrack

// WatchConfig configures WatchEnded.
type WatchConfig struct {
	// NetNS is a file descriptor of the network namespace, needed until Started is called. Zero
	// means the namespace of the calling thread.
	NetNS int
	// Ended is called for each flow that ends, with its counters. The Flow is valid only during the
	// call. Required.
	Ended func(*Flow, Counters)
	// Missed is called each time that the kernel has dropped notifications because the receive
	// buffer was full. Optional.
	Missed func()
	// Started is called when the socket has begun to receive notifications. Every flow that ends
	// after that is reported, unless the kernel drops its notification (see Missed). Optional.
	Started func()
}
