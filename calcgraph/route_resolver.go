// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// RouteReceiver receives the routes. RouteUpdate is called only for a route that is new or has
// changed.
type RouteReceiver interface {
	RouteUpdate(r *dataplane.Route)
	RouteRemove(dst netip.Prefix)
}

// RouteResolverConfig configures a RouteResolver.
type RouteResolverConfig struct {
	// Node is the name of the node that the routes are for. Required.
	Node string
	// Routes receives the routes. Required.
	Routes RouteReceiver
	// UnreachableRoutes is that of Config.
	UnreachableRoutes bool
}

func (c RouteResolverConfig) validate() error {
	var errs []error
	if c.Node == "" {
		errs = append(errs, errors.New("calcgraph: RouteResolverConfig.Node: required"))
	}
	if c.Routes == nil {
		errs = append(errs, errors.New("calcgraph: RouteResolverConfig.Routes: required"))
	}
	return errors.Join(errs...)
}

// RouteResolver computes routes: one for each prefix that a pool, block, node or endpoint has. If
// several resources have the same prefix, the route leads to the first of these:
//
//   - a local endpoint with the address;
//   - a node whose tunnel device has the address;
//   - a node with the address;
//   - a node that borrowed the address: it uses the address for a workload, although the address is
//     in the block of another node;
//   - the node of the block;
//   - a pool.
//
// There is one exception to this order. If this node or one of its tunnel devices has the address,
// this node comes directly after its local endpoints. So this node also comes before the tunnel
// devices of other nodes. If several nodes are at the same place of the order, the node with the
// smallest name takes precedence. If several blocks contain an address, "the block" in this list is
// the innermost one. It also decides whether a node has borrowed the address.
//
// The innermost pool around a prefix decides how packets to the prefix travel, for example through
// a VXLAN tunnel. If a route leads to a workload or a tunnel device of another node, the pool also
// decides when the route exists:
//
//   - If packets travel through a tunnel, the route exists as long as the tunnel endpoint of that
//     node exists (see TunnelUpdate).
//   - If packets travel without a tunnel, the route exists as long as that node has an address of
//     the same IP version.
//   - If no pool contains the prefix, the route always exists.
//
// If this node has WireGuard keys, or if UnreachableRoutes is set, a route that would not exist by
// these rules has the type RouteRemoteUnreachable.
//
// The cost of a change of a pool or block is proportional to the number of routes inside it. The
// cost of a change of a node is proportional to the number of routes to it. Addresses that cannot
// have a route (unspecified, loopback, multicast, IPv6 link-local) are ignored.
//
// A RouteResolver is not safe for concurrent use.
type RouteResolver struct {
	cfg     RouteResolverConfig
	entries bart.Table[*routeEntry] // by prefix
	// dirty has the entries whose route may differ from the sent one.
	dirty     []*routeEntry
	pools     shrinkingMap[string, routePool]
	blocks    shrinkingMap[netip.Prefix, *policy.Block]
	endpoints shrinkingMap[policy.Key, []netip.Addr] // the addresses of local endpoints
	nodes     shrinkingMap[string, *routeNode]
	tunnels   shrinkingMap[dataplane.TunnelKey, struct{}] // tunnel endpoints of other nodes
	encrypts  bool                                        // this node has WireGuard keys
	sent      int                                         // the number of entries with a route
}

// routeNode has a node and the prefixes that it claims. It can have blocks before the Node resource
// exists.
type routeNode struct {
	node *policy.Node // nil if it does not exist
	// first has the node's first IPv4 address and its first IPv6 address, each with the length of
	// its subnet.
	first [2]netip.Prefix
	// entries are the entries with a claim of the node.
	entries shrinkingMap[*routeEntry, struct{}]
}

var _ TunnelReceiver = (*RouteResolver)(nil)

// NewRouteResolver returns a RouteResolver without routes. It fails if the configuration is
// invalid.
func NewRouteResolver(cfg RouteResolverConfig) (*RouteResolver, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &RouteResolver{cfg: cfg}, nil
}

// UpdatePool adds or replaces a pool.
func (r *RouteResolver) UpdatePool(p *policy.IPPool) {
	pool := routePool{name: p.Name, cidr: canonical(p.CIDR), typ: poolType(p), natOutgoing: p.NATOutgoing}
	if old, ok := r.pools.m[p.Name]; ok && old == pool {
		return
	}
	r.DeletePool(p.Name)
	if pool.cidr.IsValid() {
		r.pools.set(p.Name, pool)
		r.changeEntry(pool.cidr, func(e *routeEntry) { e.addPool(pool) })
		r.markWithin(pool.cidr)
	}
}

// DeletePool removes a pool, if it exists.
func (r *RouteResolver) DeletePool(name string) {
	if old, ok := r.pools.m[name]; ok {
		r.pools.drop(name)
		r.changeEntry(old.cidr, func(e *routeEntry) { e.removePool(name) })
		r.markWithin(old.cidr)
	}
}

// UpdateBlock adds or replaces a block.
func (r *RouteResolver) UpdateBlock(b *policy.Block) {
	cidr := canonical(b.CIDR)
	if !cidr.IsValid() {
		return
	}
	old := r.blocks.m[cidr]
	r.blocks.set(cidr, b)
	if old == nil || old.Node != b.Node {
		if old != nil {
			r.unclaim(cidr, claim{kind: claimBlock, node: old.Node})
		}
		r.claim(cidr, claim{kind: claimBlock, node: b.Node})
		r.markWithin(cidr)
	}
	if old != nil && old.Node == b.Node && slices.Equal(old.Borrowed, b.Borrowed) {
		return
	}
	r.eachBorrowed(cidr, b, r.claim)
	if old != nil {
		r.eachBorrowed(cidr, old, r.unclaim)
	}
}

// DeleteBlock removes a block, if it exists.
func (r *RouteResolver) DeleteBlock(key policy.Key) {
	cidr, err := netip.ParsePrefix(key.Name)
	old := r.blocks.m[canonical(cidr)]
	if err != nil || old == nil || old.Key() != key {
		return // the same prefix in another form is another key
	}
	cidr = canonical(cidr)
	r.blocks.drop(cidr)
	r.eachBorrowed(cidr, old, r.unclaim)
	r.unclaim(cidr, claim{kind: claimBlock, node: old.Node})
	r.markWithin(cidr)
}

// eachBorrowed calls f for the borrowed addresses of a block.
func (r *RouteResolver) eachBorrowed(cidr netip.Prefix, b *policy.Block, f func(netip.Prefix, claim)) {
	for _, loan := range b.Borrowed {
		addr := loan.Address.Unmap()
		if loan.Node != "" && loan.Node != b.Node && routable(addr) && cidr.Contains(addr) {
			f(single(addr), claim{kind: claimBorrowed, lender: uint8(cidr.Bits()), node: loan.Node})
		}
	}
}

// UpdateEndpoint adds or replaces an endpoint. An endpoint of another node has no route of its own:
// the route of its block leads to it.
func (r *RouteResolver) UpdateEndpoint(w *policy.WorkloadEndpoint) {
	key := w.Key()
	if w.Node != r.cfg.Node {
		r.DeleteEndpoint(key)
		return
	}
	old, existed := r.endpoints.m[key]
	r.endpoints.set(key, w.Addresses)
	if existed && slices.Equal(old, w.Addresses) {
		return
	}
	r.eachAddress(w.Addresses, r.claim)
	r.eachAddress(old, r.unclaim)
}

// DeleteEndpoint removes an endpoint, if it exists.
func (r *RouteResolver) DeleteEndpoint(key policy.Key) {
	if old, ok := r.endpoints.m[key]; ok {
		r.endpoints.drop(key)
		r.eachAddress(old, r.unclaim)
	}
}

// eachAddress calls f for the addresses of a local endpoint.
func (r *RouteResolver) eachAddress(addresses []netip.Addr, f func(netip.Prefix, claim)) {
	for _, addr := range addresses {
		if addr = addr.Unmap(); routable(addr) {
			f(single(addr), claim{kind: claimLocalWorkload, node: r.cfg.Node})
		}
	}
}

// UpdateNode adds or replaces a node.
func (r *RouteResolver) UpdateNode(n *policy.Node) { r.setNode(n.Name, n) }

// DeleteNode removes a node, if it exists. Its blocks stay.
func (r *RouteResolver) DeleteNode(name string) { r.setNode(name, nil) }

func (r *RouteResolver) setNode(name string, n *policy.Node) {
	info := r.node(name)
	old, oldFirst := info.node, info.first
	info.node, info.first = n, firstAddresses(n)
	if old == nil || n == nil || !slices.Equal(old.TunnelAddresses(), n.TunnelAddresses()) ||
		!slices.Equal(old.Addresses, n.Addresses) {
		eachNodeClaim(n, r.claim)
		eachNodeClaim(old, r.unclaim)
	}
	for family := range info.first {
		if info.first[family] == oldFirst[family] {
			continue
		}
		if name == r.cfg.Node {
			r.markSubnet(family, oldFirst[family], info.first[family])
		} else {
			r.markNode(info, family)
		}
	}
	if name == r.cfg.Node {
		r.setEncrypts(n != nil && len(n.WireguardKeys) > 0)
	}
	r.dropNode(name)
}

// setEncrypts records whether this node has WireGuard keys. If this has changed, it marks the
// entries without a path.
func (r *RouteResolver) setEncrypts(encrypts bool) {
	if r.encrypts == encrypts {
		return
	}
	r.encrypts = encrypts
	for _, info := range r.nodes.m {
		for e := range info.entries.m {
			if e.sent == nil || e.sent.Type == dataplane.RouteRemoteUnreachable {
				r.markDirty(e)
			}
		}
	}
}

// markSubnet marks the entries of the nodes that enter or leave the subnet of this node when it
// changes from was to is.
func (r *RouteResolver) markSubnet(family int, was, is netip.Prefix) {
	for name, info := range r.nodes.m {
		if other := info.first[family]; name != r.cfg.Node && inSubnet(was, other) != inSubnet(is, other) {
			r.markNode(info, family)
		}
	}
}

// TunnelUpdate records that a tunnel endpoint exists. Routes through this tunnel are sent from then
// on.
func (r *RouteResolver) TunnelUpdate(t *dataplane.Tunnel) {
	k := t.Key()
	if _, had := r.tunnels.m[k]; had || k.Node == r.cfg.Node { // no route uses a tunnel to this node
		return
	}
	r.tunnels.set(k, struct{}{})
	r.markTunnel(k)
}

// TunnelRemove removes a tunnel endpoint.
func (r *RouteResolver) TunnelRemove(k dataplane.TunnelKey) {
	if _, had := r.tunnels.m[k]; had {
		r.tunnels.drop(k)
		r.markTunnel(k)
	}
}

// markTunnel marks the entries that may use a tunnel.
func (r *RouteResolver) markTunnel(k dataplane.TunnelKey) {
	if info := r.nodes.m[k.Node]; info != nil {
		r.markNode(info, (k.IPVersion-4)/2)
	}
}

// Flush sends the routes that have changed since the last flush, sorted by prefix.
func (r *RouteResolver) Flush() {
	slices.SortFunc(r.dirty, func(a, b *routeEntry) int { return dataplane.ComparePrefixes(a.dst, b.dst) })
	for _, e := range r.dirty {
		e.dirty = 0
		if r.send(e); e.empty() {
			r.entries.Delete(e.dst)
		}
	}
	// Most flushes have few changes, so a large list is freed.
	clear(r.dirty)
	if r.dirty = r.dirty[:0]; cap(r.dirty) > maxDirty {
		r.dirty = nil
	}
}

// send sends the route of an entry, if it differs from the sent one.
func (r *RouteResolver) send(e *routeEntry) {
	route, ok := r.resolve(e)
	switch {
	case ok && (e.sent == nil || *e.sent != route):
		if e.sent == nil {
			r.sent++
		}
		changed := route // only a changed route is allocated on the heap
		e.sent = &changed
		r.cfg.Routes.RouteUpdate(e.sent)
	case !ok && e.sent != nil:
		e.sent = nil
		r.sent--
		r.cfg.Routes.RouteRemove(e.dst)
	}
}

// RouteStats has counts of the contents of a RouteResolver.
type RouteStats struct {
	// Pools, Blocks and Nodes count resources. If a block or an endpoint refers to a node that does
	// not exist, Nodes counts this node, too.
	Pools, Blocks, Nodes int
	// Prefixes counts the distinct prefixes that pools, blocks, nodes and endpoints have. Routes
	// counts the routes that existed after the last flush.
	Prefixes, Routes int
}

// Stats returns the counts.
func (r *RouteResolver) Stats() RouteStats {
	return RouteStats{
		Pools: len(r.pools.m), Blocks: len(r.blocks.m), Nodes: len(r.nodes.m),
		Prefixes: r.entries.Size(), Routes: r.sent,
	}
}
