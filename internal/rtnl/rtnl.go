// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"net/netip"
	"syscall"
)

// What an *Error may be, and ErrInterrupted.
var (
	// ErrExist: something with the same identity exists.
	ErrExist = errors.New("exists")
	// ErrNotFound: the object, or the interface it refers to, does not exist.
	ErrNotFound = errors.New("not found")
	// ErrDown: the interface is down.
	ErrDown = errors.New("interface is down")
	// ErrInterrupted: several dumps in a row were interrupted by changes.
	ErrInterrupted = errors.New("rtnl: interrupted dump")
)

// Error is a refusal by the kernel. It is immutable.
type Error struct {
	Errno syscall.Errno
	// Detail is the kernel's explanation (extended ack), if there was one.
	Detail string
}

// Error returns the text of the errno, and the kernel's explanation.
func (e *Error) Error() string {
	if e.Detail == "" {
		return e.Errno.Error()
	}
	return e.Errno.Error() + " (" + e.Detail + ")"
}

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// Is reports whether the errno means target, one of this package's errors.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrExist:
		return e.Errno == syscall.EEXIST
	case ErrNotFound:
		return e.Errno == syscall.ESRCH || e.Errno == syscall.ENOENT || e.Errno == syscall.ENODEV || e.Errno == syscall.ENXIO
	case ErrDown:
		return e.Errno == syscall.ENETDOWN
	}
	return false
}

// Values of the kernel's interface that users of the package need.
const (
	// TypeUnicast is the type of a plain route.
	TypeUnicast = 1
	// ScopeUniverse and ScopeLink are scopes of IPv4 routes; IPv6 ones have ScopeUniverse.
	ScopeUniverse = 0
	ScopeLink     = 253
	// DefaultMetric6 is what the kernel makes of an IPv6 route's metric 0.
	DefaultMetric6 = 1024
	// StatePermanent is the state of a neighbour entry that never expires, StateNoARP of one that
	// never expires and is not announced.
	StatePermanent = 0x80
	StateNoARP     = 0x40
)

// Config says where a connection is made. It is a plain value.
type Config struct {
	// Namespace is the file descriptor of a network namespace; 0 means the caller's own.
	Namespace int
}

// Link is a network interface. It is a plain, comparable value.
type Link struct {
	Name  string
	Index int
	Up    bool
}

// LinkEvent says how an interface is after a change, or was before it went. It is a plain value.
type LinkEvent struct {
	Link
	// Gone means that it exists no more.
	Gone bool
}

// Route is an entry of a routing table. It is a plain, comparable value.
type Route struct {
	Dst      netip.Prefix
	Table    uint32
	Protocol uint8
	// Type, as TypeUnicast.
	Type  uint8
	Scope uint8
	TOS   uint8
	// Index of the interface; 0 for none.
	Index int
	// Metric; less comes first.
	Metric uint32
	// Gateway, if any.
	Gateway netip.Addr
	// Extra means that the route has attributes which this package does not know.
	Extra bool
}

// RouteFilter says which routes to list: all fields must match. It is a plain value.
type RouteFilter struct {
	// Family is 4 or 6.
	Family   int
	Table    uint32
	Protocol uint8
}

// Neighbour is an entry of the ARP or NDP table. It is a plain, comparable value.
type Neighbour struct {
	Addr     netip.Addr
	Index    int
	MAC      MAC
	State    uint16
	Protocol uint8
}

// Static reports whether the entry was put there by someone, and not learned.
func (n Neighbour) Static() bool { return n.State&(StatePermanent|StateNoARP) != 0 }

// MAC is a link-layer address of six bytes; entries with any other have the zero MAC.
// It is a plain, comparable value.
type MAC [6]byte
