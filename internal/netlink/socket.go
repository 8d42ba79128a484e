// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"errors"
	"fmt"
	"syscall"
)

// Families of netlink that this repository uses.
const (
	Route     = 0  // NETLINK_ROUTE
	Netfilter = 12 // NETLINK_NETFILTER
)

// ErrUnsupported means that this operating system has no netlink.
var ErrUnsupported = fmt.Errorf("netlink needs Linux: %w", errors.ErrUnsupported)

// Config configures a socket.
type Config struct {
	// Family of netlink.
	Family int
	// NetNS is a file descriptor of the network namespace. It is used only while a socket is
	// opened. Zero means the namespace of the calling thread.
	NetNS int
	// Strict makes the kernel check requests for dumps, and return only the objects that match the
	// attributes of the request (NETLINK_GET_STRICT_CHK, Linux 4.20).
	Strict bool
}

// Socket sends datagrams to the kernel and receives them. A KernelSocket implements it. Tests have
// other implementations, which record or change datagrams. An implementation need not be safe for
// concurrent use.
type Socket interface {
	// Send sends one datagram. When it returns, the kernel has processed the datagram and queued
	// all answers. Errors: *SizeError if the datagram is too large for this process, and was not
	// sent.
	Send(datagram []byte) error
	// Receive reads one datagram of the queue. It never waits, and returns EAGAIN if the queue is
	// empty. The result n is the length of the datagram. If n is greater than len(buf), buf has
	// only the first len(buf) bytes, and the rest is lost.
	Receive(buf []byte) (n int, err error)
	// Close closes the socket.
	Close() error
}

// SizeError means that a datagram is too large for this process, and was not sent. It is an
// EMSGSIZE.
type SizeError struct {
	// Size of the datagram and maximum size, in bytes.
	Size, Limit int
}

// Error names both sizes.
func (e *SizeError) Error() string {
	return fmt.Sprintf("netlink: datagram of %d bytes, at most %d can be sent", e.Size, e.Limit)
}

// Is reports whether the target is EMSGSIZE.
func (e *SizeError) Is(target error) bool { return target == syscall.EMSGSIZE }
