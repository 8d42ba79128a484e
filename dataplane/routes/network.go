// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// network is what the mapper knows of other nodes.
type network struct {
	routes  map[netip.Prefix]*dataplane.Route
	tunnels map[dataplane.TunnelKey]*dataplane.Tunnel
	// through are the routes that lead through a tunnel.
	through map[dataplane.TunnelKey]map[netip.Prefix]struct{}
	// local are the tunnels of this node, by IP version. Without one nothing of that family is
	// encapsulated here.
	local map[int]dataplane.TunnelKey
	// changed are tunnels as they were before the batch; nil if they were not there.
	changed map[dataplane.TunnelKey]*dataplane.Tunnel
	// stale are routes that have to be worked out again.
	stale map[netip.Prefix]struct{}
	// wanted is what is wanted of each of the routes, and faults are those of which nothing can be
	// wanted.
	wanted map[netip.Prefix]Route
	faults map[netip.Prefix]error
	// badTunnels are those that make no sense.
	badTunnels map[dataplane.TunnelKey]error
}

func newNetwork() network {
	return network{
		routes:     map[netip.Prefix]*dataplane.Route{},
		tunnels:    map[dataplane.TunnelKey]*dataplane.Tunnel{},
		through:    map[dataplane.TunnelKey]map[netip.Prefix]struct{}{},
		local:      map[int]dataplane.TunnelKey{},
		changed:    map[dataplane.TunnelKey]*dataplane.Tunnel{},
		stale:      map[netip.Prefix]struct{}{},
		wanted:     map[netip.Prefix]Route{},
		faults:     map[netip.Prefix]error{},
		badTunnels: map[dataplane.TunnelKey]error{},
	}
}

func (m *mapper) setRoute(r *dataplane.Route) {
	n := &m.network
	old := n.routes[r.Dst]
	if old.Equal(r) {
		return
	}
	if old != nil {
		n.detach(old)
	}
	n.routes[r.Dst] = r
	if k, ok := r.Tunnel(); ok {
		if n.through[k] == nil {
			n.through[k] = map[netip.Prefix]struct{}{}
		}
		n.through[k][r.Dst] = struct{}{}
	}
	n.stale[r.Dst] = struct{}{}
}

func (m *mapper) removeRoute(dst netip.Prefix) {
	n := &m.network
	if old := n.routes[dst]; old != nil {
		n.detach(old)
		delete(n.routes, dst)
		n.stale[dst] = struct{}{}
	}
}

func (n *network) detach(r *dataplane.Route) {
	if k, ok := r.Tunnel(); ok {
		if delete(n.through[k], r.Dst); len(n.through[k]) == 0 {
			delete(n.through, k)
		}
	}
}

// changeTunnel adds or replaces a tunnel endpoint; nil removes it.
func (m *mapper) changeTunnel(k dataplane.TunnelKey, t *dataplane.Tunnel) {
	n := &m.network
	old := n.tunnels[k]
	if old.Equal(t) {
		return
	}
	n.markChanged(k)
	n.tunnels[k] = t
	if t == nil {
		delete(n.tunnels, k)
	}
	was, is := old != nil && old.Local, t != nil && t.Local
	if was == is {
		return
	}
	if is {
		n.local[k.IPVersion] = k
	} else {
		delete(n.local, k.IPVersion)
	}
	for other := range n.tunnels {
		if other.IPVersion == k.IPVersion {
			n.markChanged(other)
		}
	}
}

// markChanged has a tunnel, and the routes through it, worked out again.
func (n *network) markChanged(k dataplane.TunnelKey) {
	if _, noted := n.changed[k]; !noted {
		n.changed[k] = n.tunnels[k]
	}
	for dst := range n.through[k] {
		n.stale[dst] = struct{}{}
	}
}

// carries reports whether this node encapsulates packets of the family.
func (m *mapper) carries(ipVersion int) bool {
	_, ok := m.network.local[ipVersion]
	return ok
}

// flush works out what changed of tunnels and routes. It is called at the end of a batch, when no
// two tunnels have the same address any more: what a tunnel had goes before another gets it.
func (m *mapper) flush() {
	n := &m.network
	if len(n.changed)+len(n.stale) == 0 {
		return
	}
	for _, old := range n.changed {
		if old != nil {
			objects, _ := m.tunnelObjects(old)
			for _, o := range objects {
				m.unset(o)
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(n.changed), dataplane.TunnelKey.Compare) {
		delete(n.badTunnels, k)
		t := n.tunnels[k]
		if t == nil || !m.carries(k.IPVersion) {
			continue
		}
		objects, err := m.tunnelObjects(t)
		if err != nil {
			n.badTunnels[k] = err
		}
		for _, o := range objects {
			m.set(o)
		}
	}
	clear(n.changed)
	for dst := range n.stale {
		m.workOut(dst)
	}
	clear(n.stale)
}

// device returns the name of the VXLAN device of a family.
func (c *Config) device(ipVersion int) string {
	if ipVersion == 4 {
		return c.VXLAN.Device4
	}
	return c.VXLAN.Device6
}

// devices returns the names of all devices that encapsulate packets.
func (c *Config) devices() []string { return []string{c.VXLAN.Device4, c.VXLAN.Device6} }

// tunnelObjects returns what a tunnel endpoint needs.
func (m *mapper) tunnelObjects(t *dataplane.Tunnel) ([]Object, error) {
	mac, err := parseMAC(t.MAC)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTunnel, err)
	}
	dev := m.cfg.device(t.IPVersion)
	if !t.Local {
		return []Object{
			Neighbour{Addr: t.Address, Interface: dev, MAC: mac},
			FDB{MAC: mac, Dst: t.ParentAddress, Interface: dev},
		}, nil
	}
	return []Object{
		VXLAN{
			Name: dev, VNI: m.cfg.VXLAN.VNI, Port: m.cfg.VXLAN.Port, Local: t.ParentAddress, MTU: m.cfg.VXLAN.MTU,
			MAC: mac, Addresses: []netip.Prefix{hostPrefix(t.Address)},
		},
		Setting{Path: fmt.Sprintf("net/ipv%d/conf/%s/forwarding", t.IPVersion, dev), Value: "1", Interface: dev},
	}, nil
}

// workOut works out what is wanted of a route of the network.
func (m *mapper) workOut(dst netip.Prefix) {
	n := &m.network
	delete(n.faults, dst)
	now, want := Route{}, false
	if r := n.routes[dst]; r != nil {
		var err error
		if now, want, err = m.wayTo(r); err != nil {
			n.faults[dst] = err
			m.changed = true
		}
	}
	old, had := n.wanted[dst]
	if had && (!want || old.Class != now.Class) {
		m.unset(old)
		delete(n.wanted, dst)
	}
	if want {
		n.wanted[dst] = now
		m.set(now)
	}
}

// wayTo returns the route that leads there, if this dataplane has one. Local workloads have theirs
// from their endpoints, which the driver holds back until their policy is in the kernel.
func (m *mapper) wayTo(r *dataplane.Route) (way Route, want bool, err error) {
	if r.Type == dataplane.RouteBlackhole {
		return m.route(Route{Dst: r.Dst, Class: ClassDrop, Type: Blackhole}), true, nil
	}
	if r.Type != dataplane.RouteRemoteWorkload && r.Type != dataplane.RouteRemoteTunnel ||
		r.Pool == dataplane.PoolNone {
		return Route{}, false, nil
	}
	if k, ok := r.Tunnel(); ok {
		t := m.network.tunnels[k]
		switch {
		case !m.carries(k.IPVersion):
			return Route{}, false, nil
		case t == nil:
			return Route{}, false, fmt.Errorf("%w to node %s", ErrTunnel, k.Node)
		}
		return m.route(Route{
			Dst: r.Dst, Class: ClassTunnel, Interface: m.cfg.device(k.IPVersion), Gateway: t.Address, OnLink: true,
		}), true, nil
	}
	switch {
	case r.Pool != dataplane.PoolDirect && !r.SameSubnet:
		return Route{}, false, fmt.Errorf("%w: IP in IP is not made here", ErrTunnel)
	case m.cfg.NoDirect || !r.NodeAddress.IsValid():
		return Route{}, false, nil
	}
	return m.route(Route{Dst: r.Dst, Class: ClassDirect, Gateway: r.NodeAddress}), true, nil
}

// nodeKey is what a fault of a node's routes or tunnels is blamed on.
func nodeKey(name string) policy.Key { return policy.Key{Kind: policy.KindNode, Name: name} }
