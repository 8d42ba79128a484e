// SPDX-License-Identifier: Apache-2.0

package nfnl

// Config says how to reach nf_tables.
type Config struct {
	// NetNS is a file descriptor of the network namespace, needed only while a socket is opened.
	// Zero means that of the calling thread.
	NetNS int
}

// Socket carries datagrams to the kernel and back. Tests put one of their own in between, to see and to spoil what
// goes through. It need not be safe for concurrent use.
type Socket interface {
	// Send sends one datagram. The kernel has handled it, and queued all that it has to say, when Send returns.
	// Errors: *SizeError if it is larger than this process may send, and nothing was sent.
	Send(data []byte) error
	// Receive takes one datagram off the queue. It never waits: an error that is EAGAIN says that there is none.
	// n is the datagram's length, of which no more than len(buf) was kept.
	Receive(buf []byte) (n int, err error)
	// Close closes it.
	Close() error
}
