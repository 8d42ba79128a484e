// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"net/netip"
)

// Route has the place of the addresses of a prefix, as seen from the node that the events are for: the node or workload
// that has them, and the next hop or tunnel to it. The dataplane decides whether to program it; see Type and Pool. If
// several routes match an address, the one with the longest prefix applies.
//
// A route through a tunnel is only sent while the tunnel exists, and a route to a remote workload in a pool only while
// the node's address is known. Otherwise it is removed. Several goroutines may read a Route that does not change.
type Route struct {
	// Dst of the route, with no host bits. It is the identity of the route.
	Dst netip.Prefix
	// Type is the kind of the destination.
	Type RouteType
	// Node that Dst is at. Empty if Type is RoutePool.
	Node string
	// NodeAddress is the first address of Node in the family of Dst, where Node is a remote one.
	// The zero Addr means that it is unknown, or that Node is this node or empty.
	NodeAddress netip.Addr
	// Pool is how the innermost pool around Dst carries traffic between nodes.
	Pool PoolType
	// SameSubnet means that the pool encapsulates between subnets alone, and that the first address of
	// Node, a remote one, is in a subnet of this node.
	SameSubnet bool
	// Borrowed means that Dst is an address of a block that is not Node's.
	Borrowed bool
	// NATOutgoing is that of the pool: what Dst sends to addresses outside all pools gets the
	// node's address.
	NATOutgoing bool
}

// RouteType is the kind of the destination of a prefix. It is a plain value and safe for concurrent use.
type RouteType uint8

// The types of routes.
const (
	// RoutePool is no route but the extent of a pool, for lookups of addresses.
	RoutePool RouteType = iota
	// RouteLocalWorkload is an address of a local workload endpoint.
	RouteLocalWorkload
	// RouteRemoteWorkload is a block of a remote node, or an address that a workload there uses.
	RouteRemoteWorkload
	// RouteLocalHost is an address of this node.
	RouteLocalHost
	// RouteRemoteHost is an address of a remote node. It is reached over the underlying network,
	// whatever the pool.
	RouteRemoteHost
	// RouteLocalTunnel is the address of a tunnel device of this node.
	RouteLocalTunnel
	// RouteRemoteTunnel is the address of a tunnel device of a remote node.
	RouteRemoteTunnel
	// RouteBlackhole is a block of this node, or an address of another's block that was lent to
	// this node: what no longer prefix leads to a workload is dropped, lest it go back where it
	// came from.
	RouteBlackhole
)

// Remote reports whether the type is one of a remote node.
func (t RouteType) Remote() bool {
	return t == RouteRemoteWorkload || t == RouteRemoteHost || t == RouteRemoteTunnel
}

// Equal reports whether the two routes are the same. A nil route equals only nil.
func (r *Route) Equal(o *Route) bool { return equalValues(r, o) }

// ComparePrefixes orders prefixes by address, IPv4 first, and then by length: a prefix comes before
// those in it.
func ComparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// RouteRemove withdraws a route.
type RouteRemove struct {
	Dst netip.Prefix
}

// RouteUpdate makes or replaces a route. The tunnel endpoint that it leads through exists.
type RouteUpdate struct {
	Route *Route
}
