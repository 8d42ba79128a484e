// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"net/netip"
	"syscall"

	"github.com/wayleave/wayleave/internal/netlink"
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
	ErrInterrupted = netlink.ErrInterrupted
)

// Error is a refusal by the kernel. It is immutable.
type Error netlink.AckError

// Error returns the text of the errno, and the kernel's explanation.
func (e *Error) Error() string { return (*netlink.AckError)(e).Error() }

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// Is reports whether the errno means target, one of this package's errors.
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

// Values of the kernel's interface that users of the package need.
const (
	// TypeUnicast is the type of a plain route; the others lead nowhere.
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
	// ScopeNowhere, in a route that is to be deleted, is any scope; a zero Type is any type.
	ScopeNowhere = 255
	// DefaultMetric6 is what the kernel makes of an IPv6 route's metric 0.
	DefaultMetric6 = 1024
	// StatePermanent is the state of a neighbour entry that never expires, StateNoARP of one that
	// never expires and is not announced.
	StatePermanent = 0x80
	StateNoARP     = 0x40
	// RuleLookup, RuleGoto and RuleNop are actions of rules: to look the address up in a table, to go on at
	// another priority, and nothing. They are FR_ACT_TO_TBL, FR_ACT_GOTO and FR_ACT_NOP of the kernel.
	RuleLookup = 1
	RuleGoto   = 2
	RuleNop    = 3
)

// Config says where a connection is made.
type Config struct {
	// NetNS is the file descriptor of a network namespace, open until Conn.Handle was called if
	// it is; 0 means the caller's own.
	NetNS int
}

// Route is an entry of a routing table. It is a plain, comparable value.
type Route struct {
	Dst    netip.Prefix
	Table  uint32
	Metric uint32 // less comes first
	// Protocol is the number of whoever made it.
	Protocol uint8
	// Type, as TypeUnicast.
	Type  uint8
	Scope uint8
	TOS   uint8
	// OnLink takes the gateway for reachable over the interface, whatever the addresses of that.
	OnLink bool
	// Extra means that the route has attributes which this package does not know.
	Extra bool
	// Cached means that it is no entry of a table but what the kernel made of one for a single
	// destination.
	Cached bool
	// Index of the interface; 0 for none.
	Index int
	// Gateway, if any.
	Gateway netip.Addr
	// Source is the preferred source address, if any.
	Source netip.Addr
	// MTU of the way, in bytes; 0 for that of the interface.
	MTU uint32
	// Multipath means that it has several next hops, of which nothing is read.
	Multipath bool
}

// RouteFilter says which routes to list: all fields must match.
type RouteFilter struct {
	// Family is 4 or 6.
	Family int
	Table  uint32
	// Protocol; 0 is any.
	Protocol uint8
}

// Neighbour is an entry of the ARP or NDP table, or of the forwarding database of a VXLAN device. It
// is a plain, comparable value.
type Neighbour struct {
	// Addr that the entry is for. With Forward: the host that frames to the MAC go to.
	Addr     netip.Addr
	Index    int
	MAC      MAC
	State    uint16
	Protocol uint8
	// Proxy means that the host answers for the address on the interface; there is no MAC and no
	// state then.
	Proxy bool
	// Forward means that the entry is of a forwarding database, and Extra that such an entry has
	// attributes which this package does not know.
	Forward, Extra bool
}

// Rule is an entry of the policy routing database. It is a plain, comparable value.
type Rule struct {
	// Family is 4 or 6.
	Family   int
	Priority uint32
	From, To netip.Prefix // the zero Prefix is any
	// UDPSourcePort is the source port of UDP packets that the rule is for; 0 is any packet.
	UDPSourcePort uint16
	// Local limits the rule to packets that the host itself sends (iif lo).
	Local bool
	Table uint32
	// Goto is the priority that RuleGoto goes on at.
	Goto uint32
	// Action, as RuleLookup, or the type of a route that leads nowhere.
	Action   uint8
	Protocol uint8
	// Extra means that the rule has conditions which this package does not know.
	Extra bool
}

// Static reports whether the entry was put there by someone, and not learned.
func (n Neighbour) Static() bool { return n.State&(StatePermanent|StateNoARP) != 0 }

// MAC is a link-layer address of six bytes; entries with any other have the zero MAC.
// It is a plain, comparable value.
type MAC [6]byte
