// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"errors"
	"fmt"
	"syscall"
)

// The families that this repository speaks to.
const (
	Route     = 0  // NETLINK_ROUTE
	Netfilter = 12 // NETLINK_NETFILTER
)

// ErrUnsupported means that this operating system has no netlink.
var ErrUnsupported = fmt.Errorf("netlink needs Linux: %w", errors.ErrUnsupported)

// Config says which socket to open.
type Config struct {
	// Family of netlink.
	Family int
	// NetNS is a file descriptor of the network namespace, needed only while a socket is opened.
	// Zero means that of the calling thread.
	NetNS int
	// Strict has the kernel check requests for dumps, and filter by what is in them
	// (NETLINK_GET_STRICT_CHK, Linux 4.20).
	Strict bool
}

// Socket sends datagrams to the kernel and receives them. Tests insert one of their own, to see and
// to change the datagrams. It need not be safe for concurrent use.
type Socket interface {
	// Send sends one datagram. The kernel has handled it, and queued all its answers, when Send
	// returns. Errors: *SizeError if it is larger than this process may send, and nothing was sent.
	Send(datagram []byte) error
	// Receive takes one datagram off the queue. It never waits, and returns EAGAIN if the queue is
	// empty. n is the datagram's length, of which no more than len(buf) was kept.
	Receive(buf []byte) (n int, err error)
	// Close closes it.
	Close() error
}

// SizeError says that a datagram is larger than this process may send, and was not sent. It is an
// EMSGSIZE.
type SizeError struct {
	// Size of the datagram, and the largest that there may be, in bytes.
	Size, Limit int
}

// Error names both sizes.
func (e *SizeError) Error() string {
	return fmt.Sprintf("netlink: datagram of %d bytes, and no more than %d may be sent", e.Size, e.Limit)
}

// Is reports whether the target is EMSGSIZE.
func (e *SizeError) Is(target error) bool { return target == syscall.EMSGSIZE }
