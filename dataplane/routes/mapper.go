// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// sink receives changes to the desired state: a Keeper, or the stores of a plan.
type sink interface {
	change(objects []Object, remove bool)
}

// mapper turns events into the objects of a Keeper, and the Keeper's errors into errors of
// endpoints and nodes.
type mapper struct {
	cfg    *Config
	sink   sink
	inSync bool
	// changed is set if the desired state of the Keeper, or an endpoint, changed.
	changed bool

	endpoints map[policy.Key]*endpoint
	// claims has for each address the keys of its endpoints, smallest first. The first endpoint
	// gets the route.
	claims map[netip.Prefix][]policy.Key
	// contested has the addresses that several endpoints have. bad has the invalid endpoints.
	contested map[netip.Prefix]struct{}
	bad       map[policy.Key]struct{}
	// assigned has, for each address, the assignment that its objects in the sink were made from.
	assigned map[netip.Prefix]assignment
	// released has addresses that an endpoint no longer has, with the key of that endpoint. If the
	// objects of such an address cannot be removed, the endpoint is at fault.
	released map[netip.Prefix]policy.Key
	// refs counts the endpoints that share an object, by its identity.
	refs map[any]int

	network network
}

// assignment is the endpoint, the interface and the MAC of an address.
type assignment struct {
	key   policy.Key
	iface string
	mac   MAC
}

func newMapper(cfg *Config, to sink) *mapper {
	return &mapper{
		cfg: cfg, sink: to,
		endpoints: map[policy.Key]*endpoint{},
		claims:    map[netip.Prefix][]policy.Key{},
		contested: map[netip.Prefix]struct{}{},
		bad:       map[policy.Key]struct{}{},
		assigned:  map[netip.Prefix]assignment{},
		released:  map[netip.Prefix]policy.Key{},
		refs:      map[any]int{},
		network:   newNetwork(),
	}
}

// fork returns a mapper with the same state, which writes to another sink.
func (m *mapper) fork(to sink) *mapper {
	f := newMapper(m.cfg, to)
	f.inSync = m.inSync
	for key, ep := range m.endpoints {
		f.setEndpoint(key, ep)
	}
	for _, t := range m.network.tunnels {
		f.changeTunnel(t.Key(), t)
	}
	for _, r := range m.network.routes {
		f.setRoute(r)
	}
	f.flush()
	return f
}

func (m *mapper) set(o Object) {
	m.changed = true
	m.sink.change(m.inTables(o), false)
}

func (m *mapper) unset(o Object) {
	m.changed = true
	m.sink.change(m.inTables(o), true)
}

// inTables returns the object; for a route, it returns one route for each configured table.
func (m *mapper) inTables(o Object) []Object {
	r, isRoute := o.(Route)
	if !isRoute {
		return []Object{o}
	}
	var all []Object
	for _, r.Table = range m.cfg.Tables {
		all = append(all, r)
	}
	return all
}

// update applies a batch.
func (m *mapper) update(b dataplane.Batch) {
	for _, event := range b.Events {
		switch e := event.(type) {
		case *dataplane.EndpointUpdate:
			m.setEndpoint(e.Key, newEndpoint(e.Endpoint))
		case *dataplane.EndpointRemove:
			m.removeEndpoint(e.Key)
		case *dataplane.RouteUpdate:
			m.setRoute(e.Route)
		case *dataplane.RouteRemove:
			m.removeRoute(e.Dst)
		case *dataplane.TunnelUpdate:
			m.changeTunnel(e.Tunnel.Key(), e.Tunnel)
		case *dataplane.TunnelRemove:
			m.changeTunnel(e.Key, nil)
		case *dataplane.InSync:
			m.inSync = true
		}
	}
	m.flush()
}

func (m *mapper) setEndpoint(key policy.Key, ep *endpoint) {
	old := m.endpoints[key]
	if old != nil && old.equal(ep) {
		return // only its policy changed
	}
	m.endpoints[key] = ep
	m.changed = true
	if ep.err != nil {
		m.bad[key] = struct{}{}
	} else {
		delete(m.bad, key)
	}
	m.refAll(ep, 1)
	for _, prefix := range ep.prefixes {
		keys := m.claims[prefix]
		if at, has := slices.BinarySearchFunc(keys, key, policy.Key.Compare); !has {
			m.claims[prefix] = slices.Insert(keys, at, key)
		}
		m.updatePlacement(prefix)
	}
	if old != nil {
		m.release(key, old, ep)
	}
}

func (m *mapper) removeEndpoint(key policy.Key) {
	if old := m.endpoints[key]; old != nil {
		delete(m.endpoints, key)
		delete(m.bad, key)
		m.changed = true
		m.release(key, old, &endpoint{})
	}
}

// release removes the objects of the endpoint's old state that its new one does not need.
func (m *mapper) release(key policy.Key, old, now *endpoint) {
	for _, prefix := range old.prefixes {
		if slices.Contains(now.prefixes, prefix) {
			continue
		}
		keys := slices.DeleteFunc(m.claims[prefix], func(k policy.Key) bool { return k == key })
		if m.claims[prefix] = keys; len(keys) == 0 {
			delete(m.claims, prefix)
		}
		m.updatePlacement(prefix)
	}
	m.refAll(old, -1)
}

// updatePlacement sets the objects of an address.
func (m *mapper) updatePlacement(prefix netip.Prefix) {
	keys := m.claims[prefix]
	if len(keys) > 1 {
		m.contested[prefix] = struct{}{}
	} else {
		delete(m.contested, prefix)
	}
	was, had := m.assigned[prefix]
	var now assignment
	if len(keys) > 0 {
		ep := m.endpoints[keys[0]]
		now = assignment{keys[0], ep.iface, ep.mac}
	}
	if had && was == now {
		return
	}
	if had && was.key != now.key {
		m.released[prefix] = was.key
	}
	if had && (was.iface != now.iface || now.mac == MAC{}) {
		m.unset(Neighbour{Addr: prefix.Addr(), Interface: was.iface})
	}
	if now.iface == "" {
		m.unset(m.localRoute(prefix, was.iface))
		delete(m.assigned, prefix)
		return
	}
	m.assigned[prefix] = now
	if (now.mac != MAC{}) {
		m.set(Neighbour{Addr: prefix.Addr(), Interface: now.iface, MAC: now.mac})
	}
	m.set(m.localRoute(prefix, now.iface))
}

func (m *mapper) localRoute(prefix netip.Prefix, iface string) Route {
	return m.route(Route{Dst: prefix, Class: ClassLocalWorkload, Interface: iface})
}

// route sets the configured metric.
func (m *mapper) route(r Route) Route {
	r.Metric = m.cfg.Metric
	return r
}

// gatewayMetric is so large that every other route to the gateway has precedence.
const gatewayMetric = 1 << 31

// refAll changes the reference counts of the settings and proxies of an endpoint. The kernel
// answers an ARP request for a gateway only if it has a route to the gateway over another
// interface. Therefore each IPv4 gateway gets a route over the loopback, although no packet is to
// be sent there.
func (m *mapper) refAll(ep *endpoint, by int) {
	for _, s := range m.cfg.settings(ep) {
		m.ref(s.Path, s, by)
	}
	if ep.iface == "" {
		return
	}
	for _, g := range m.cfg.Gateways {
		g = g.Unmap()
		p := Proxy{Addr: g, Interface: ep.iface}
		m.ref(p, p, by)
		if g.Is4() {
			m.ref(g, Route{Dst: hostPrefix(g), Metric: gatewayMetric, Interface: "lo"}, by)
		}
	}
}

// ref changes the reference count of an object. The first reference sets it, the last deletes it.
func (m *mapper) ref(identity any, o Object, by int) {
	was := m.refs[identity]
	switch m.refs[identity] = was + by; {
	case was == 0:
		m.set(o)
	case was+by == 0:
		delete(m.refs, identity)
		m.unset(o)
	}
}
