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

// network has the events' routes and tunnels, and the objects made from them.
type network struct {
	routes  map[netip.Prefix]*dataplane.Route
	tunnels map[dataplane.TunnelKey]*dataplane.Tunnel
	// tunnelRoutes are the destinations of the routes through each tunnel.
	tunnelRoutes map[dataplane.TunnelKey]map[netip.Prefix]struct{}
	// local has this node's own tunnel endpoints, by their keys without the node. If one is
	// missing, this node encapsulates no packets of that family and protocol.
	local map[dataplane.TunnelKey]struct{}
	// changed has the tunnels that the batch changes, in their state before the batch; nil if they
	// did not exist.
	changed map[dataplane.TunnelKey]*dataplane.Tunnel
	// dirty has the destinations of routes whose objects must be computed again.
	dirty map[netip.Prefix]struct{}
	// desired has the objects of the routes. faults has the errors of routes that have no object.
	desired map[netip.Prefix]Route
	faults  map[netip.Prefix]error
	// badTunnels has the errors of invalid tunnels.
	badTunnels map[dataplane.TunnelKey]error
}

func newNetwork() network {
	return network{
		routes:       map[netip.Prefix]*dataplane.Route{},
		tunnels:      map[dataplane.TunnelKey]*dataplane.Tunnel{},
		tunnelRoutes: map[dataplane.TunnelKey]map[netip.Prefix]struct{}{},
		local:        map[dataplane.TunnelKey]struct{}{},
		changed:      map[dataplane.TunnelKey]*dataplane.Tunnel{},
		dirty:        map[netip.Prefix]struct{}{},
		desired:      map[netip.Prefix]Route{},
		faults:       map[netip.Prefix]error{},
		badTunnels:   map[dataplane.TunnelKey]error{},
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
		if n.tunnelRoutes[k] == nil {
			n.tunnelRoutes[k] = map[netip.Prefix]struct{}{}
		}
		n.tunnelRoutes[k][r.Dst] = struct{}{}
	}
	n.dirty[r.Dst] = struct{}{}
}

func (m *mapper) removeRoute(dst netip.Prefix) {
	n := &m.network
	if old := n.routes[dst]; old != nil {
		n.detach(old)
		delete(n.routes, dst)
		n.dirty[dst] = struct{}{}
	}
}

func (n *network) detach(r *dataplane.Route) {
	if k, ok := r.Tunnel(); ok {
		if delete(n.tunnelRoutes[k], r.Dst); len(n.tunnelRoutes[k]) == 0 {
			delete(n.tunnelRoutes, k)
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
	here := withoutNode(k)
	if is {
		n.local[here] = struct{}{}
	} else {
		delete(n.local, here)
	}
	for other := range n.tunnels {
		if withoutNode(other) == here {
			n.markChanged(other)
		}
	}
}

// withoutNode returns the part of a key that the tunnels of all nodes have in common.
func withoutNode(k dataplane.TunnelKey) dataplane.TunnelKey {
	k.Node = ""
	return k
}

// markChanged marks a tunnel, and the routes through it, to be resolved again.
func (n *network) markChanged(k dataplane.TunnelKey) {
	if _, marked := n.changed[k]; !marked {
		n.changed[k] = n.tunnels[k]
	}
	for dst := range n.tunnelRoutes[k] {
		n.dirty[dst] = struct{}{}
	}
}

// encapsulates reports whether this node itself has a tunnel endpoint of the same family and
// protocol.
func (m *mapper) encapsulates(k dataplane.TunnelKey) bool {
	_, ok := m.network.local[withoutNode(k)]
	return ok
}

// flush updates the objects of changed tunnels and routes. It is called at the end of a batch, when
// no two tunnels have the same address any more. It deletes old objects first, because another
// tunnel may now have the same ones.
func (m *mapper) flush() {
	n := &m.network
	if len(n.changed)+len(n.dirty) == 0 {
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
		if t == nil || !m.encapsulates(k) {
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
	for dst := range n.dirty {
		m.updateRoute(dst)
	}
	clear(n.dirty)
}

// device returns the name of this node's device for a tunnel endpoint.
func (c *Config) device(k dataplane.TunnelKey) string {
	switch {
	case k.Encapsulation == dataplane.EncapIPIP:
		return c.IPIP.Device
	case k.IPVersion == 4:
		return c.VXLAN.Device4
	}
	return c.VXLAN.Device6
}

// devices returns the names of all devices that encapsulate packets.
func (c *Config) devices() []string { return []string{c.VXLAN.Device4, c.VXLAN.Device6, c.IPIP.Device} }

// tunnelObjects returns the objects of a tunnel endpoint. An IP-in-IP endpoint of another node has
// none: routes name its address as their gateway, and that is all the kernel needs.
func (m *mapper) tunnelObjects(t *dataplane.Tunnel) ([]Object, error) {
	dev, ipip := m.cfg.device(t.Key()), t.Encapsulation == dataplane.EncapIPIP
	mac, err := parseMAC(t.MAC)
	switch {
	case ipip && !t.Local:
		return nil, nil
	case !ipip && err != nil:
		return nil, fmt.Errorf("%w: %w", ErrTunnel, err)
	case !t.Local:
		return []Object{
			Neighbour{Addr: t.Address, Interface: dev, MAC: mac},
			FDB{MAC: mac, Dst: t.ParentAddress, Interface: dev},
		}, nil
	}
	addresses := []netip.Prefix{hostPrefix(t.Address)}
	var d Object = IPIP{
		Name: dev, Local: t.ParentAddress, Parent: m.cfg.Parent, MTU: m.cfg.IPIP.MTU, Addresses: addresses,
	}
	if !ipip {
		d = VXLAN{
			Name: dev, VNI: m.cfg.VXLAN.VNI, Port: m.cfg.VXLAN.Port, Local: t.ParentAddress, Parent: m.cfg.Parent,
			MTU: m.cfg.VXLAN.MTU, MAC: mac, Addresses: addresses,
		}
	}
	path := fmt.Sprintf("net/ipv%d/conf/%s/forwarding", t.IPVersion, dev)
	return []Object{d, Setting{Path: path, Value: "1", Interface: dev}}, nil
}

// updateRoute updates the object of a route.
func (m *mapper) updateRoute(dst netip.Prefix) {
	n := &m.network
	delete(n.faults, dst)
	now, want := Route{}, false
	if r := n.routes[dst]; r != nil {
		var err error
		if now, want, err = m.routeTo(r); err != nil {
			n.faults[dst] = err
			m.changed = true
		}
	}
	old, had := n.desired[dst]
	if had && (!want || old.Class != now.Class) {
		m.unset(old)
		delete(n.desired, dst)
	}
	if want {
		n.desired[dst] = now
		m.set(now)
	}
}

// routeTo returns the object of a route, if there is one. Routes to local workloads have none here:
// their endpoints have them, because the driver withholds an endpoint until its policy is in the
// kernel.
func (m *mapper) routeTo(r *dataplane.Route) (object Route, want bool, err error) {
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
		case !m.encapsulates(k):
			return Route{}, false, nil
		case t == nil:
			return Route{}, false, fmt.Errorf("%w to node %s", ErrTunnel, k.Node)
		}
		gateway := t.Address
		if k.Encapsulation == dataplane.EncapIPIP {
			gateway = t.ParentAddress
		}
		return m.route(Route{
			Dst: r.Dst, Class: ClassTunnel, Interface: m.cfg.device(k), Gateway: gateway, OnLink: true,
		}), true, nil
	}
	if m.cfg.NoDirect || !r.NodeAddress.IsValid() {
		return Route{}, false, nil
	}
	return m.route(Route{Dst: r.Dst, Class: ClassDirect, Gateway: r.NodeAddress}), true, nil
}

// nodeKey returns the key of a node, under which faults of its routes and tunnels are reported.
func nodeKey(name string) policy.Key { return policy.Key{Kind: policy.KindNode, Name: name} }
