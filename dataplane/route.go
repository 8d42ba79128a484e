// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"net/netip"
)

// Route describes where the addresses of a prefix are, and how packets from this node reach them.
// It has the node with these addresses, the address of that node, and whether packets go through a
// tunnel. A dataplane does not make a route in the kernel for every Route: the fields Type and Pool
// decide whether one is needed. If several routes match an address, the one with the longest prefix
// applies.
//
// A Route through a tunnel exists only while the tunnel exists. Any other Route to a remote
// workload in a pool exists only while the address of the workload's node is known.
//
// Several goroutines may read a Route that does not change.
type Route struct {
	// Dst is the destination, without host bits. It identifies the route: there is at most one
	// route to each Dst.
	Dst netip.Prefix
	// Type is the kind of the destination, for example a remote workload.
	Type RouteType
	// Node is the node that Dst is on. Empty if Type is RoutePool.
	Node string
	// NodeAddress is the first address of Node in the family of Dst, if Node is a remote node. It
	// is the zero Addr if Node is this node, or if the address is unknown.
	NodeAddress netip.Addr
	// Pool is the type of the smallest pool that contains Dst. The type decides how packets to Dst
	// travel between nodes.
	Pool PoolType
	// SameSubnet means that packets need no encapsulation. It is set if the pool encapsulates only
	// between subnets, and NodeAddress is in the subnet of this node's first address.
	SameSubnet bool
	// Borrowed means that Node uses the address Dst, although Dst is in the block of another node.
	// A block is a prefix of addresses that one node gives to its workloads.
	Borrowed bool
	// NATOutgoing is copied from the pool. It is about packets whose source is in Dst and whose
	// destination is outside all pools. If it is set, the sender's node replaces the source of
	// these packets by an address of the node (source NAT).
	NATOutgoing bool
}

// RouteType is the kind of the destination of a route.
type RouteType uint8

// The types of routes. The comment of each type says what Dst is.
const (
	// RoutePool is the prefix of a pool. It is not a route to program. A dataplane uses it to find
	// the pool of an address.
	RoutePool RouteType = iota
	// RouteLocalWorkload is an address of a local workload endpoint.
	RouteLocalWorkload
	// RouteRemoteWorkload is a block of addresses of a remote node, or an address that a workload
	// on a remote node uses.
	RouteRemoteWorkload
	// RouteLocalHost is an address of this node.
	RouteLocalHost
	// RouteRemoteHost is an address of a remote node. Packets to it take the underlying network,
	// whatever the type of the pool.
	RouteRemoteHost
	// RouteLocalTunnel is the address of a tunnel device of this node.
	RouteLocalTunnel
	// RouteRemoteTunnel is the address of a tunnel device of a remote node.
	RouteRemoteTunnel
	// RouteBlackhole is a block of this node, or an address that this node has borrowed from the
	// block of another node. Packets to an address in Dst are dropped if no route with a longer
	// prefix leads to a workload. Without the blackhole, this node would send such packets back to
	// the network, by its default route.
	RouteBlackhole
	// RouteRemoteUnreachable is a destination on a remote node to which this node has no path.
	// Either the remote node's resource is missing, or the resource lacks the address that the pool
	// needs. Such routes exist only while this node has WireGuard keys, or with
	// calcgraph.Config.UnreachableRoutes. With them, a dataplane can drop the packets, which would
	// otherwise leave unencrypted. Without them, there is no route to such a destination.
	RouteRemoteUnreachable
)

// Remote reports whether destinations of the type are on a remote node.
func (t RouteType) Remote() bool {
	return t == RouteRemoteWorkload || t == RouteRemoteHost || t == RouteRemoteTunnel ||
		t == RouteRemoteUnreachable
}

// Equal reports whether the two routes are the same. A nil route equals only nil.
func (r *Route) Equal(o *Route) bool { return equalValues(r, o) }

// ComparePrefixes orders prefixes by address, IPv4 first, and then by length. So a prefix comes
// before the prefixes that it contains.
func ComparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// RouteRemove removes a route.
type RouteRemove struct {
	Dst netip.Prefix
}

// RouteUpdate makes or replaces a route. If the route leads through a tunnel, an earlier event has
// added the tunnel.
type RouteUpdate struct {
	Route *Route
}
