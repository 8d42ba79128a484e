// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
)

// claimKind is the kind of a claim, in order of precedence.
type claimKind uint8

const (
	claimLocalWorkload claimKind = iota
	claimTunnel
	claimHost
	claimBorrowed
	claimBlock
)

// claim is the assignment of a prefix to a node, with the number of resources that make it.
type claim struct {
	kind claimKind
	// own means that the prefix is an address of this node. Claims of other nodes do not take
	// precedence over it.
	own bool
	// lender is the prefix length of the block with the borrowed address, for claimBorrowed.
	lender uint8
	count  int32
	node   string
}

// rank orders claims to one destination. An address of this node comes before an address of another
// node.
func (c claim) rank() claimKind {
	if c.own {
		return claimTunnel
	}
	return c.kind
}

func (c claim) compare(o claim) int {
	if c.rank() == o.rank() && c.own != o.own {
		if c.own {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(c.rank(), o.rank()), cmp.Compare(c.kind, o.kind), strings.Compare(c.node, o.node),
		cmp.Compare(c.lender, o.lender),
	)
}

// owned returns the claim with own set.
func (r *RouteResolver) owned(c claim) claim {
	c.own = c.node == r.cfg.Node && (c.kind == claimHost || c.kind == claimTunnel)
	return c
}

// routePool has the fields of a pool that routes use.
type routePool struct {
	name        string
	cidr        netip.Prefix
	typ         dataplane.PoolType
	natOutgoing bool
}

// routeEntry has the claims and pools of a prefix. After the last one is removed, it exists until
// the next flush.
type routeEntry struct {
	dst netip.Prefix
	// claims are sorted by precedence. The first one in effect determines the route.
	claims []claim
	// pools with this CIDR, sorted by name. The first one is used.
	pools []routePool
	// sent is the route last sent to the receiver, or nil.
	sent *dataplane.Route
	// dirty is the index in the list of dirty entries plus one, or 0.
	dirty int
}

// empty reports whether the prefix has no claim and no pool, and no route was sent.
func (e *routeEntry) empty() bool { return len(e.claims)+len(e.pools) == 0 && e.sent == nil }

// block returns the node of the block with this prefix, if there is one.
func (e *routeEntry) block() (node string, ok bool) {
	if n := len(e.claims); n > 0 && e.claims[n-1].kind == claimBlock {
		return e.claims[n-1].node, true
	}
	return "", false
}

// winner returns the claim that determines the route, or nil. block is the prefix length of the
// innermost block around the prefix, or noBlock. Borrowed addresses of an outer block do not count.
// A block without a node has no route.
func (e *routeEntry) winner(block int) *claim {
	for i := range e.claims {
		c := &e.claims[i]
		switch {
		case c.node == "":
		case c.kind == claimBorrowed && int(c.lender) != block:
		default:
			return c
		}
	}
	return nil
}

// noBlock means that there is no block around a prefix.
const noBlock = -1

func (e *routeEntry) addPool(p routePool) {
	e.pools = append(e.pools, p)
	slices.SortFunc(e.pools, func(a, b routePool) int { return strings.Compare(a.name, b.name) })
}

func (e *routeEntry) removePool(name string) {
	e.pools = slices.DeleteFunc(e.pools, func(p routePool) bool { return p.name == name })
}

// resolve returns the route of an entry, if there is one.
func (r *RouteResolver) resolve(e *routeEntry) (route dataplane.Route, ok bool) {
	route.Dst = e.dst
	var owner string
	block := noBlock
	for _, around := range r.entries.Supernets(e.dst) { // the innermost first
		if len(around.pools) > 0 && route.Pool == dataplane.PoolNone {
			pool := &around.pools[0]
			route.Pool, route.NATOutgoing = pool.typ, pool.natOutgoing
		}
		if node, ok := around.block(); ok && block == noBlock {
			owner, block = node, around.dst.Bits()
		}
	}
	c := e.winner(block)
	if c == nil {
		return route, len(e.pools) > 0
	}
	route.Node = c.node
	route.Type = c.routeType(c.node == r.cfg.Node)
	route.Borrowed = block != noBlock && owner != c.node && c.kind != claimHost
	if !route.Type.Remote() || r.setPath(&route) {
		return route, true
	}
	route.Type = dataplane.RouteRemoteUnreachable
	return route, r.encrypts || r.cfg.UnreachableRoutes
}

func (c *claim) routeType(local bool) dataplane.RouteType {
	switch {
	case c.kind == claimLocalWorkload:
		return dataplane.RouteLocalWorkload
	case c.kind == claimTunnel && local:
		return dataplane.RouteLocalTunnel
	case c.kind == claimTunnel:
		return dataplane.RouteRemoteTunnel
	case c.kind == claimHost && local:
		return dataplane.RouteLocalHost
	case c.kind == claimHost:
		return dataplane.RouteRemoteHost
	case local:
		return dataplane.RouteBlackhole
	default:
		return dataplane.RouteRemoteWorkload
	}
}

// setPath sets the node address of a route to a remote node, and whether both nodes are in one
// subnet. It reports whether there is a path, or none is needed: outside all pools, and for
// addresses of nodes, a route only describes the owner.
func (r *RouteResolver) setPath(route *dataplane.Route) bool {
	family := familyOf(route.Dst.Addr())
	info := r.nodes.m[route.Node] // not nil, because the node has a claim
	first := info.first[family]
	route.NodeAddress = first.Addr()
	if own := r.nodes.m[r.cfg.Node]; own != nil && route.Pool.CrossSubnet() {
		route.SameSubnet = inSubnet(own.first[family], first)
	}
	if route.Pool == dataplane.PoolNone || route.Type == dataplane.RouteRemoteHost {
		return true
	}
	if k, ok := route.Tunnel(); ok {
		_, exists := r.tunnels.m[k]
		return exists
	}
	return first.IsValid()
}

// changeEntry changes the entry of the prefix, and creates it if needed.
func (r *RouteResolver) changeEntry(p netip.Prefix, change func(*routeEntry)) {
	e, ok := r.entries.Get(p)
	if !ok {
		e = &routeEntry{dst: p}
		r.entries.Insert(p, e)
	}
	change(e)
	if r.markDirty(e); e.empty() {
		r.drop(e) // immediately, because there is no flush before InSync
	}
}

// drop removes an entry.
func (r *RouteResolver) drop(e *routeEntry) {
	last := r.dirty[len(r.dirty)-1]
	r.dirty[e.dirty-1], last.dirty = last, e.dirty
	r.dirty[len(r.dirty)-1] = nil
	r.dirty = shrunk(r.dirty[:len(r.dirty)-1])
	e.dirty = 0
	r.entries.Delete(e.dst)
}

// shrunk returns a copy of the list if its capacity is much larger than its length.
func shrunk[T any](list []T) []T {
	if cap(list) > 64 && len(list)*8 < cap(list) {
		return slices.Clone(list)
	}
	return list
}

// claim adds a claim to a prefix.
func (r *RouteResolver) claim(p netip.Prefix, c claim) {
	r.changeEntry(p, func(e *routeEntry) {
		c := r.owned(c)
		at, ok := slices.BinarySearchFunc(e.claims, c, claim.compare)
		if ok {
			e.claims[at].count++
			return
		}
		c.count = 1
		e.claims = slices.Insert(e.claims, at, c)
		r.node(c.node).entries.set(e, struct{}{})
	})
}

// unclaim removes a claim.
func (r *RouteResolver) unclaim(p netip.Prefix, c claim) {
	r.changeEntry(p, func(e *routeEntry) {
		at, _ := slices.BinarySearchFunc(e.claims, r.owned(c), claim.compare)
		if e.claims[at].count--; e.claims[at].count > 0 {
			return
		}
		e.claims = shrunk(slices.Delete(e.claims, at, at+1))
		if !r.claimed(e, c.node) {
			r.nodes.m[c.node].entries.drop(e)
			r.dropNode(c.node)
		}
	})
}

// claimed reports whether a node has a claim to an entry. It does not iterate over all claims,
// because many nodes may have one.
func (r *RouteResolver) claimed(e *routeEntry, node string) bool {
	for kind := claimLocalWorkload; kind <= claimBlock; kind++ {
		c := r.owned(claim{kind: kind, node: node})
		at, _ := slices.BinarySearchFunc(e.claims, c, claim.compare) // the first one of the kind and node
		if at < len(e.claims) && e.claims[at].kind == kind && e.claims[at].node == node {
			return true
		}
	}
	return false
}

// node returns the record of a node, and creates it if needed.
func (r *RouteResolver) node(name string) *routeNode {
	info := r.nodes.m[name]
	if info == nil {
		info = &routeNode{}
		r.nodes.set(name, info)
	}
	return info
}

// dropNode removes the record of a node if it is empty.
func (r *RouteResolver) dropNode(name string) {
	info := r.nodes.m[name]
	if info != nil && info.node == nil && len(info.entries.m) == 0 {
		r.nodes.drop(name)
	}
}

func (r *RouteResolver) markDirty(e *routeEntry) {
	if e.dirty == 0 {
		r.dirty = append(r.dirty, e)
		e.dirty = len(r.dirty)
	}
}

// markWithin marks the entries of the prefixes inside p, including p.
func (r *RouteResolver) markWithin(p netip.Prefix) {
	for _, e := range r.entries.Subnets(p) {
		r.markDirty(e)
	}
}

// markNode marks the entries of one family that a node has a claim to.
func (r *RouteResolver) markNode(info *routeNode, family int) {
	for e := range info.entries.m {
		if familyOf(e.dst.Addr()) == family {
			r.markDirty(e)
		}
	}
}
