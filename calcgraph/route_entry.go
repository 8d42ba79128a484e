// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
)

// claimKind says why a node is claimed to have a prefix, in order of precedence.
type claimKind uint8

const (
	claimLocalWorkload claimKind = iota
	claimTunnel
	claimRemoteWorkload
	claimHost
	claimBorrowed
	claimBlock
)

// claim says that a node has a prefix, and how many say so.
type claim struct {
	kind  claimKind
	count int
	node  string
	own   bool // an address of this very node, which no other can take from it
}

func (c claim) compare(o claim) int {
	if c.kind == o.kind && c.own != o.own {
		if c.own {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(c.kind, o.kind), strings.Compare(c.node, o.node))
}

func (r *RouteResolver) newClaim(kind claimKind, node string) claim {
	return claim{kind: kind, count: 1, node: node, own: node == r.cfg.Node && (kind == claimHost || kind == claimTunnel)}
}

// routePool is what routes need to know of a pool.
type routePool struct {
	name        string
	cidr        netip.Prefix
	typ         dataplane.PoolType
	natOutgoing bool
}

// routeEntry is all that is said of a prefix. It lives until the flush after everything has been taken back.
type routeEntry struct {
	dst netip.Prefix
	// claims in order: the first that counts has the prefix.
	claims []claim
	// pools with this CIDR, sorted by name; the first counts.
	pools []routePool
	// said is the route that the receiver knows, or nil.
	said  *dataplane.Route
	dirty bool
}

// block returns the node whose block the prefix is, if it is a block.
func (e *routeEntry) block() (node string, ok bool) {
	if n := len(e.claims); n > 0 && e.claims[n-1].kind == claimBlock {
		return e.claims[n-1].node, true
	}
	return "", false
}

// winner returns the claim that counts, or nil. Remote endpoints do not count where a block says who has what, and
// a block that is nobody's leads nowhere.
func (e *routeEntry) winner(inBlock bool) *claim {
	for i := range e.claims {
		c := &e.claims[i]
		if c.node != "" && (c.kind != claimRemoteWorkload || !inBlock) {
			return c
		}
	}
	return nil
}

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
	inBlock := false
	r.trie(e.dst).around(e.dst, func(around *routeEntry) {
		if len(around.pools) > 0 {
			pool := &around.pools[0]
			route.Pool, route.NATOutgoing = pool.typ, pool.natOutgoing
		}
		if node, ok := around.block(); ok {
			owner, inBlock = node, true
		}
	})
	c := e.winner(inBlock)
	if c == nil {
		return route, len(e.pools) > 0
	}
	route.Node = c.node
	route.Type = c.routeType(c.node == r.cfg.Node)
	route.Borrowed = inBlock && owner != c.node && c.kind != claimHost
	return route, !route.Type.Remote() || r.reach(&route)
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

// reach fills in the way to a remote node. It reports whether there is one, or none is needed: outside all
// pools, and for the addresses of nodes, a route only says what is there.
func (r *RouteResolver) reach(route *dataplane.Route) bool {
	family := familyOf(route.Dst.Addr())
	info := r.nodes[route.Node] // never nil: the node has a claim
	first := info.first[family]
	route.NodeAddress = first.Addr()
	if own := r.nodes[r.cfg.Node]; own != nil && route.Pool.CrossSubnet() {
		route.SameSubnet = inSubnet(own.first[family], first)
	}
	if route.Pool == dataplane.PoolNone || route.Type == dataplane.RouteRemoteHost {
		return true
	}
	if _, ok := route.Tunnel(); ok {
		return info.tunnels[family]
	}
	return first.IsValid()
}

func (r *RouteResolver) trie(p netip.Prefix) *prefixes[routeEntry] {
	return &r.tries[familyOf(p.Addr())]
}

// entry changes the entry of the prefix, which is made if it is not there.
func (r *RouteResolver) entry(p netip.Prefix, change func(*routeEntry)) {
	trie := r.trie(p)
	e := trie.get(p)
	if e == nil {
		e = &routeEntry{dst: p}
		trie.set(p, e)
		r.entries++
	}
	change(e)
	r.touch(e)
}

// claim says that a node has a prefix.
func (r *RouteResolver) claim(p netip.Prefix, kind claimKind, node string) {
	r.entry(p, func(e *routeEntry) {
		c := r.newClaim(kind, node)
		at, ok := slices.BinarySearchFunc(e.claims, c, claim.compare)
		if ok {
			e.claims[at].count++
			return
		}
		e.claims = slices.Insert(e.claims, at, c)
		info := r.node(node)
		if info.entries == nil {
			info.entries = map[*routeEntry]struct{}{}
		}
		info.entries[e] = struct{}{}
	})
}

// unclaim takes back what claim said.
func (r *RouteResolver) unclaim(p netip.Prefix, kind claimKind, node string) {
	r.entry(p, func(e *routeEntry) {
		at, _ := slices.BinarySearchFunc(e.claims, r.newClaim(kind, node), claim.compare)
		if e.claims[at].count--; e.claims[at].count > 0 {
			return
		}
		e.claims = slices.Delete(e.claims, at, at+1)
		if !slices.ContainsFunc(e.claims, func(c claim) bool { return c.node == node }) {
			delete(r.nodes[node].entries, e)
			r.forget(node)
		}
	})
}

// node returns what is known of a node, a new record if nothing is.
func (r *RouteResolver) node(name string) *routeNode {
	info := r.nodes[name]
	if info == nil {
		info = &routeNode{}
		r.nodes[name] = info
	}
	return info
}

// forget drops the record of a node of which nothing is known any more.
func (r *RouteResolver) forget(name string) {
	info := r.nodes[name]
	if info != nil && info.node == nil && info.tunnels == [2]bool{} && len(info.entries) == 0 {
		delete(r.nodes, name)
	}
}

func (r *RouteResolver) touch(e *routeEntry) {
	if !e.dirty {
		e.dirty = true
		r.dirty = append(r.dirty, e)
	}
}

func (r *RouteResolver) touchWithin(p netip.Prefix) { r.trie(p).within(p, r.touch) }

// touchNode touches the entries of one family that a node has a claim to.
func (r *RouteResolver) touchNode(info *routeNode, family int) {
	for e := range info.entries {
		if familyOf(e.dst.Addr()) == family {
			r.touch(e)
		}
	}
}
