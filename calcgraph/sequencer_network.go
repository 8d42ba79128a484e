// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

var (
	_ RouteReceiver          = (*Sequencer)(nil)
	_ TunnelReceiver         = (*Sequencer)(nil)
	_ NodeReceiver           = (*Sequencer)(nil)
	_ PoolReceiver           = (*Sequencer)(nil)
	_ ServiceReceiver        = (*Sequencer)(nil)
	_ NamespaceReceiver      = (*Sequencer)(nil)
	_ ServiceAccountReceiver = (*Sequencer)(nil)
)

// networkStream is the part of a Sequencer for routes, tunnels and named resources.
type networkStream struct {
	routes     objects[netip.Prefix, dataplane.Route]
	tunnels    objects[dataplane.TunnelKey, dataplane.Tunnel]
	nodes      objects[string, dataplane.Node]
	pools      objects[string, dataplane.Pool]
	services   objects[policy.Key, dataplane.Service]
	namespaces objects[string, dataplane.Namespace]
	accounts   objects[dataplane.ServiceAccountKey, dataplane.ServiceAccount]
}

func newNetworkStream() networkStream {
	return networkStream{
		routes: newObjects(dataplane.ComparePrefixes, (*dataplane.Route).Equal,
			func(_ netip.Prefix, r *dataplane.Route) dataplane.Event { return &dataplane.RouteUpdate{Route: r} },
			func(dst netip.Prefix) dataplane.Event { return &dataplane.RouteRemove{Dst: dst} }),
		tunnels: newObjects(dataplane.TunnelKey.Compare, (*dataplane.Tunnel).Equal,
			func(_ dataplane.TunnelKey, t *dataplane.Tunnel) dataplane.Event {
				return &dataplane.TunnelUpdate{Tunnel: t}
			},
			func(k dataplane.TunnelKey) dataplane.Event { return &dataplane.TunnelRemove{Key: k} }),
		nodes: newObjects(strings.Compare, (*dataplane.Node).Equal,
			func(_ string, n *dataplane.Node) dataplane.Event { return &dataplane.NodeUpdate{Node: n} },
			func(name string) dataplane.Event { return &dataplane.NodeRemove{Name: name} }),
		pools: newObjects(strings.Compare, (*dataplane.Pool).Equal,
			func(_ string, p *dataplane.Pool) dataplane.Event { return &dataplane.PoolUpdate{Pool: p} },
			func(name string) dataplane.Event { return &dataplane.PoolRemove{Name: name} }),
		services: newObjects(policy.Key.Compare, (*dataplane.Service).Equal,
			func(_ policy.Key, s *dataplane.Service) dataplane.Event { return &dataplane.ServiceUpdate{Service: s} },
			func(k policy.Key) dataplane.Event { return &dataplane.ServiceRemove{Key: k} }),
		namespaces: newObjects(strings.Compare, (*dataplane.Namespace).Equal,
			func(_ string, n *dataplane.Namespace) dataplane.Event {
				return &dataplane.NamespaceUpdate{Namespace: n}
			},
			func(name string) dataplane.Event { return &dataplane.NamespaceRemove{Name: name} }),
		accounts: newObjects(dataplane.ServiceAccountKey.Compare, (*dataplane.ServiceAccount).Equal,
			func(_ dataplane.ServiceAccountKey, a *dataplane.ServiceAccount) dataplane.Event {
				return &dataplane.ServiceAccountUpdate{ServiceAccount: a}
			},
			func(k dataplane.ServiceAccountKey) dataplane.Event { return &dataplane.ServiceAccountRemove{Key: k} }),
	}
}

// appendChanges appends the events of changes. A route is removed before its tunnel, and added
// after it (S96).
func (n *networkStream) appendChanges(events []dataplane.Event) []dataplane.Event {
	tunnels := n.tunnels.appendUpdates(nil)
	routes := n.routes.appendUpdates(nil)
	events = n.routes.appendRemoves(events)
	events = n.tunnels.appendRemoves(events)
	events = append(append(events, tunnels...), routes...)

	events = n.nodes.appendRemoves(n.nodes.appendUpdates(events))
	events = n.pools.appendRemoves(n.pools.appendUpdates(events))
	events = n.services.appendRemoves(n.services.appendUpdates(events))
	events = n.namespaces.appendRemoves(n.namespaces.appendUpdates(events))
	return n.accounts.appendRemoves(n.accounts.appendUpdates(events))
}

// appendAll appends the events that create the emitted state.
func (n *networkStream) appendAll(events []dataplane.Event) []dataplane.Event {
	events = n.routes.appendAll(n.tunnels.appendAll(events))
	events = n.services.appendAll(n.pools.appendAll(n.nodes.appendAll(events)))
	return n.accounts.appendAll(n.namespaces.appendAll(events))
}

// RouteUpdate adds or replaces a route.
func (s *Sequencer) RouteUpdate(r *dataplane.Route) { s.network.routes.set(r.Dst, r) }

// RouteRemove removes a route.
func (s *Sequencer) RouteRemove(dst netip.Prefix) { s.network.routes.set(dst, nil) }

// TunnelUpdate adds or replaces a tunnel endpoint.
func (s *Sequencer) TunnelUpdate(t *dataplane.Tunnel) { s.network.tunnels.set(t.Key(), t) }

// TunnelRemove removes a tunnel endpoint.
func (s *Sequencer) TunnelRemove(k dataplane.TunnelKey) { s.network.tunnels.set(k, nil) }

// NodeUpdate adds or replaces a node.
func (s *Sequencer) NodeUpdate(n *dataplane.Node) { s.network.nodes.set(n.Name, n) }

// NodeRemove removes a node.
func (s *Sequencer) NodeRemove(name string) { s.network.nodes.set(name, nil) }

// PoolUpdate adds or replaces a pool.
func (s *Sequencer) PoolUpdate(p *dataplane.Pool) { s.network.pools.set(p.Name, p) }

// PoolRemove removes a pool.
func (s *Sequencer) PoolRemove(name string) { s.network.pools.set(name, nil) }

// ServiceUpdate adds or replaces backends of a service.
func (s *Sequencer) ServiceUpdate(part *dataplane.Service) { s.network.services.set(part.Key, part) }

// ServiceRemove removes backends of a service.
func (s *Sequencer) ServiceRemove(key policy.Key) { s.network.services.set(key, nil) }

// NamespaceUpdate adds or replaces a namespace.
func (s *Sequencer) NamespaceUpdate(n *dataplane.Namespace) { s.network.namespaces.set(n.Name, n) }

// NamespaceRemove removes a namespace.
func (s *Sequencer) NamespaceRemove(name string) { s.network.namespaces.set(name, nil) }

// ServiceAccountUpdate adds or replaces a service account.
func (s *Sequencer) ServiceAccountUpdate(a *dataplane.ServiceAccount) {
	s.network.accounts.set(a.Key, a)
}

// ServiceAccountRemove removes a service account.
func (s *Sequencer) ServiceAccountRemove(k dataplane.ServiceAccountKey) {
	s.network.accounts.set(k, nil)
}
