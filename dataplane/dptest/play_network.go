// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
)

// The steps of routes, tunnels and names come after those of policy. InSync is in the last step of
// a batch.
const (
	firstNetworkStep = 100
	lastStep         = 1000
)

// placeNetwork is place for the events of routes, tunnels and names.
func placeNetwork(e dataplane.Event) (int, object) {
	const first = firstNetworkStep
	if hollow(e) {
		return 0, object{}
	}
	switch e := e.(type) {
	case *dataplane.RouteRemove:
		return first, object{"route", e.Dst}
	case *dataplane.TunnelRemove:
		return first + 1, object{"tunnel", e.Key}
	case *dataplane.TunnelUpdate:
		return first + 2, object{"tunnel", e.Tunnel.Key()}
	case *dataplane.RouteUpdate:
		return first + 3, object{"route", e.Route.Dst}
	case *dataplane.NodeUpdate:
		return first + 4, object{"node", e.Node.Name}
	case *dataplane.NodeRemove:
		return first + 5, object{"node", e.Name}
	case *dataplane.PoolUpdate:
		return first + 6, object{"pool", e.Pool.Name}
	case *dataplane.PoolRemove:
		return first + 7, object{"pool", e.Name}
	case *dataplane.ServiceUpdate:
		return first + 8, object{"service", e.Service.Key}
	case *dataplane.ServiceRemove:
		return first + 9, object{"service", e.Key}
	case *dataplane.NamespaceUpdate:
		return first + 10, object{"namespace", e.Namespace.Name}
	case *dataplane.NamespaceRemove:
		return first + 11, object{"namespace", e.Name}
	case *dataplane.ServiceAccountUpdate:
		return first + 12, object{"serviceaccount", e.ServiceAccount.Key}
	case *dataplane.ServiceAccountRemove:
		return first + 13, object{"serviceaccount", e.Key}
	default:
		return 0, object{}
	}
}

// hollow reports whether an event has no object.
func hollow(e dataplane.Event) bool {
	switch e := e.(type) {
	case *dataplane.TunnelUpdate:
		return e.Tunnel == nil
	case *dataplane.RouteUpdate:
		return e.Route == nil
	case *dataplane.NodeUpdate:
		return e.Node == nil
	case *dataplane.PoolUpdate:
		return e.Pool == nil
	case *dataplane.ServiceUpdate:
		return e.Service == nil
	case *dataplane.NamespaceUpdate:
		return e.Namespace == nil
	case *dataplane.ServiceAccountUpdate:
		return e.ServiceAccount == nil
	}
	return false
}

// sortedNetwork is sorted for the ids of routes, tunnels and names.
func sortedNetwork(a, b any) bool {
	switch b := b.(type) {
	case netip.Prefix:
		return dataplane.ComparePrefixes(a.(netip.Prefix), b) < 0
	case dataplane.TunnelKey:
		return a.(dataplane.TunnelKey).Compare(b) < 0
	case dataplane.ServiceAccountKey:
		return a.(dataplane.ServiceAccountKey).Compare(b) < 0
	default:
		return false
	}
}

func (p *player) playNetwork(e dataplane.Event) string {
	switch e := e.(type) {
	case *dataplane.RouteRemove:
		return remove(p.state.Routes, e.Dst, nil, func(old *dataplane.Route) { p.refs.route(old, -1) })
	case *dataplane.TunnelRemove:
		p.tunnels = append(p.tunnels, e.Key)
		return remove(p.state.Tunnels, e.Key, nil, func(*dataplane.Tunnel) {})
	case *dataplane.TunnelUpdate:
		return update(p.state.Tunnels, e.Tunnel.Key(), e.Tunnel, checkTunnel(e.Tunnel))
	case *dataplane.RouteUpdate:
		return p.routeUpdate(e.Route)
	case *dataplane.NodeUpdate:
		return update(p.state.Nodes, e.Node.Name, e.Node, checkNode(e.Node))
	case *dataplane.NodeRemove:
		return remove(p.state.Nodes, e.Name, nil, func(*dataplane.Node) {})
	case *dataplane.PoolUpdate:
		return update(p.state.Pools, e.Pool.Name, e.Pool, checkPool(e.Pool))
	case *dataplane.PoolRemove:
		return remove(p.state.Pools, e.Name, nil, func(*dataplane.Pool) {})
	case *dataplane.ServiceUpdate:
		return update(p.state.Services, e.Service.Key, e.Service, checkService(e.Service))
	case *dataplane.ServiceRemove:
		return remove(p.state.Services, e.Key, nil, func(*dataplane.Service) {})
	case *dataplane.NamespaceUpdate:
		return update(p.state.Namespaces, e.Namespace.Name, e.Namespace, checkName(e.Namespace.Name))
	case *dataplane.NamespaceRemove:
		return remove(p.state.Namespaces, e.Name, nil, func(*dataplane.Namespace) {})
	case *dataplane.ServiceAccountUpdate:
		a := e.ServiceAccount
		return update(p.state.ServiceAccounts, a.Key, a, checkName(a.Key.Namespace)+checkName(a.Key.Name))
	case *dataplane.ServiceAccountRemove:
		return remove(p.state.ServiceAccounts, e.Key, nil, func(*dataplane.ServiceAccount) {})
	default: // order lets no other event through
		return "unknown event"
	}
}

// update puts a value that nothing is wrong with in its place.
func update[K comparable, V any](into map[K]V, k K, v V, msg string) string {
	if msg == "" {
		into[k] = v
	}
	return msg
}

func (p *player) routeUpdate(r *dataplane.Route) string {
	if msg := checkRoute(r); msg != "" {
		return msg
	}
	if k, ok := r.Tunnel(); ok && p.state.Tunnels[k] == nil {
		return "leads through the absent tunnel " + k.String() // S96
	}
	if old, ok := p.state.Routes[r.Dst]; ok {
		p.refs.route(old, -1)
	}
	p.refs.route(r, 1)
	p.state.Routes[r.Dst] = r
	return ""
}

// route adds n to the count of the tunnel that the route leads through.
func (r refs) route(route *dataplane.Route, n int) {
	if k, ok := route.Tunnel(); ok {
		r.tunnels[k] += n
	}
}

// finish checks what must hold after a batch, and may not hold within one: routes and tunnels are
// replaced one by one, with at most one event each.
func (p *player) finish() string {
	for _, k := range p.tunnels {
		if p.refs.tunnels[k] > 0 {
			return fmt.Sprintf("%d routes lead through the removed tunnel %s", p.refs.tunnels[k], k)
		}
	}
	type address struct {
		version int
		text    string
	}
	seen := map[address]dataplane.TunnelKey{}
	for k, t := range p.state.Tunnels {
		for _, a := range []address{{k.IPVersion, t.Address.String()}, {k.IPVersion, t.MAC}} {
			if other, ok := seen[a]; ok {
				return fmt.Sprintf("tunnels %s and %s have one address, %s", min(other.Node, k.Node),
					max(other.Node, k.Node), a.text)
			}
			seen[a] = k
		}
	}
	return ""
}
