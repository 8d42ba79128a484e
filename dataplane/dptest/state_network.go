// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"maps"
	"net/netip"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// equalNetwork is Equal for routes, tunnels and names.
func (s State) equalNetwork(o State) bool {
	return maps.EqualFunc(s.Tunnels, o.Tunnels, (*dataplane.Tunnel).Equal) &&
		maps.EqualFunc(s.Routes, o.Routes, (*dataplane.Route).Equal) &&
		maps.EqualFunc(s.Nodes, o.Nodes, (*dataplane.Node).Equal) &&
		maps.EqualFunc(s.Pools, o.Pools, (*dataplane.Pool).Equal) &&
		maps.EqualFunc(s.Services, o.Services, (*dataplane.Service).Equal) &&
		maps.EqualFunc(s.Namespaces, o.Namespaces, (*dataplane.Namespace).Equal) &&
		maps.EqualFunc(s.ServiceAccounts, o.ServiceAccounts, (*dataplane.ServiceAccount).Equal)
}

// transitionNetwork adds the events of routes, tunnels and names that lead from one state to the
// other.
func (b *batch) transitionNetwork(from, to State) {
	gone(from.Routes, to.Routes, dataplane.ComparePrefixes,
		func(dst netip.Prefix) { b.add(&dataplane.RouteRemove{Dst: dst}) })
	gone(from.Tunnels, to.Tunnels, dataplane.TunnelKey.Compare,
		func(k dataplane.TunnelKey) { b.add(&dataplane.TunnelRemove{Key: k}) })
	changed(from.Tunnels, to.Tunnels, dataplane.TunnelKey.Compare, (*dataplane.Tunnel).Equal,
		func(_ dataplane.TunnelKey, t *dataplane.Tunnel) { b.add(&dataplane.TunnelUpdate{Tunnel: t}) })
	changed(from.Routes, to.Routes, dataplane.ComparePrefixes, (*dataplane.Route).Equal,
		func(_ netip.Prefix, r *dataplane.Route) { b.add(&dataplane.RouteUpdate{Route: r}) })
	changed(from.Nodes, to.Nodes, strings.Compare, (*dataplane.Node).Equal,
		func(_ string, n *dataplane.Node) { b.add(&dataplane.NodeUpdate{Node: n}) })
	gone(from.Nodes, to.Nodes, strings.Compare,
		func(n string) { b.add(&dataplane.NodeRemove{Name: n}) })
	changed(from.Pools, to.Pools, strings.Compare, (*dataplane.Pool).Equal,
		func(_ string, p *dataplane.Pool) { b.add(&dataplane.PoolUpdate{Pool: p}) })
	gone(from.Pools, to.Pools, strings.Compare,
		func(n string) { b.add(&dataplane.PoolRemove{Name: n}) })
	changed(from.Services, to.Services, policy.Key.Compare, (*dataplane.Service).Equal,
		func(_ policy.Key, s *dataplane.Service) { b.add(&dataplane.ServiceUpdate{Service: s}) })
	gone(from.Services, to.Services, policy.Key.Compare,
		func(k policy.Key) { b.add(&dataplane.ServiceRemove{Key: k}) })
	changed(from.Namespaces, to.Namespaces, strings.Compare, (*dataplane.Namespace).Equal,
		func(_ string, n *dataplane.Namespace) { b.add(&dataplane.NamespaceUpdate{Namespace: n}) })
	gone(from.Namespaces, to.Namespaces, strings.Compare,
		func(n string) { b.add(&dataplane.NamespaceRemove{Name: n}) })
	b.transitionAccounts(from, to)
}

func (b *batch) transitionAccounts(from, to State) {
	changed(from.ServiceAccounts, to.ServiceAccounts, dataplane.ServiceAccountKey.Compare,
		(*dataplane.ServiceAccount).Equal,
		func(_ dataplane.ServiceAccountKey, a *dataplane.ServiceAccount) {
			b.add(&dataplane.ServiceAccountUpdate{ServiceAccount: a})
		})
	gone(from.ServiceAccounts, to.ServiceAccounts, dataplane.ServiceAccountKey.Compare,
		func(k dataplane.ServiceAccountKey) { b.add(&dataplane.ServiceAccountRemove{Key: k}) })
}
