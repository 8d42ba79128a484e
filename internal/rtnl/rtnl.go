// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"net/netip"
	"syscall"

	"github.com/wayleave/wayleave/internal/netlink"
)

// Causes of an *Error, and ErrInterrupted.
var (
	// ErrExist: an object with the same identity exists.
	ErrExist = errors.New("exists")
	// ErrNotFound: the object, or the interface that it refers to, does not exist.
	ErrNotFound = errors.New("not found")
	// ErrDown: the interface is down.
	ErrDown = errors.New("interface is down")
	// ErrInterrupted: several dumps in a row were interrupted by changes.
	ErrInterrupted = netlink.ErrInterrupted
)

// Error is the error with which the kernel refused a request. It is immutable, so it is safe for
// concurrent use.
type Error netlink.AckError

// Error returns the text of the errno, and the kernel's explanation.
func (e *Error) Error() string { return (*netlink.AckError)(e).Error() }

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// Is reports whether the errno corresponds to the target: ErrExist, ErrNotFound or ErrDown. It
// returns false for any other target.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrExist:
		return e.Errno == syscall.EEXIST
	case ErrNotFound:
		return e.Errno == syscall.ESRCH || e.Errno == syscall.ENOENT || e.Errno == syscall.ENODEV ||
			e.Errno == syscall.ENXIO
	case ErrDown:
		return e.Errno == syscall.ENETDOWN
	}
	return false
}

// Constants of the kernel's rtnetlink API that users of the package need.
const (
	// TypeUnicast is the type of an ordinary route. Routes of the next two types drop packets.
	TypeUnicast     = 1
	TypeBlackhole   = 6
	TypeUnreachable = 7
	// TypeThrow ends the lookup in a table as if it had no route.
	TypeThrow = 9
	// TypeLocal is the type of a route to an address of the node itself.
	TypeLocal = 2
	// ScopeUniverse and ScopeLink are scopes of IPv4 routes; IPv6 ones have ScopeUniverse.
	ScopeUniverse = 0
	ScopeLink     = 253
	// ScopeNowhere matches any scope in a request to delete a route. A Type of 0 matches any type
	// in such a request.
	ScopeNowhere = 255
	// DefaultMetric6 is the metric of an IPv6 route that is added with metric 0.
	DefaultMetric6 = 1024
	// StatePermanent is the state of a neighbour entry that never expires. One with StateNoARP does
	// not expire either, and is not verified.
	StatePermanent = 0x80
	StateNoARP     = 0x40
	// RuleLookup, RuleGoto and RuleNop are actions of rules: look up a table, continue with the
	// rules of another priority, and do nothing. They are FR_ACT_TO_TBL, FR_ACT_GOTO and FR_ACT_NOP
	// of the kernel.
	RuleLookup = 1
	RuleGoto   = 2
	RuleNop    = 3
)

// Config configures a connection.
type Config struct {
	// NetNS is the file descriptor of a network namespace; 0 means the caller's own. If you use
	// Conn.Handle, keep the descriptor open until the first call of Conn.Handle.
	NetNS int
}

// Route is an entry of a routing table. It is comparable.
type Route struct {
	Dst    netip.Prefix
	Table  uint32
	Metric uint32 // smaller first
	// Protocol is the number of the program that made the route.
	Protocol uint8
	// Type, such as TypeUnicast.
	Type  uint8
	Scope uint8
	TOS   uint8
	// OnLink means that the interface reaches the gateway directly, even if the interface has no
	// address in the gateway's subnet.
	OnLink bool
	// Extra means that the route has attributes which this package does not know.
	Extra bool
	// Cached means that the route is not an entry of a table: the kernel has copied it from an
	// entry, for one destination.
	Cached bool
	// Index of the interface; 0 for none.
	Index int
	// Gateway, if any.
	Gateway netip.Addr
	// Source is the preferred source address, if any.
	Source netip.Addr
	// MTU of the route in bytes; 0 means the MTU of the interface.
	MTU uint32
	// Multipath means that the route has several next hops, which are not read.
	Multipath bool
}

// RouteFilter selects the routes to list: all fields must match.
type RouteFilter struct {
	// Family is 4 or 6.
	Family int
	Table  uint32
	// Protocol; 0 is any.
	Protocol uint8
}

// Neighbour is an entry of the ARP or NDP table, or of the forwarding database of a VXLAN device.
// It is comparable.
type Neighbour struct {
	// Addr is the address of the entry. With Forward, it is the host to which frames for the MAC
	// are sent.
	Addr     netip.Addr
	Index    int
	MAC      MAC
	State    uint16
	Protocol uint8
	// Proxy means that the host answers the ARP or NDP requests for Addr that it receives on the
	// interface. Such an entry has no MAC and no state.
	Proxy bool
	// Forward means that the entry is in a forwarding database. Extra means that an entry with
	// Forward has attributes which this package does not know.
	Forward, Extra bool
}

// Rule is an entry of the policy routing database. It is comparable.
type Rule struct {
	// Family is 4 or 6.
	Family   int
	Priority uint32
	From, To netip.Prefix // the zero Prefix is any
	// UDPSourcePort limits the rule to UDP packets with this source port. 0 means packets of any
	// protocol and port.
	UDPSourcePort uint16
	// Local limits the rule to packets that the host itself sends (iif lo).
	Local bool
	Table uint32
	// Goto is the priority at which RuleGoto continues.
	Goto uint32
	// Action is RuleLookup, RuleGoto or RuleNop. If the rule drops packets, Action is the type of a
	// route that does so, such as TypeBlackhole.
	Action   uint8
	Protocol uint8
	// Extra means that the rule has conditions which this package does not know.
	Extra bool
}

// Static reports whether the entry is static: the kernel did not learn it, and usually a program
// added it.
func (n Neighbour) Static() bool { return n.State&(StatePermanent|StateNoARP) != 0 }

// MAC is a link-layer address of six bytes. It is comparable. If the kernel reports an address of
// another length, the MAC is zero.
type MAC [6]byte
