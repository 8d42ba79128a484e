// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// network is a TunnelResolver and a RouteResolver, connected, and their output.
type network struct {
	t         testing.TB
	resolvers struct {
		tunnels *calcgraph.TunnelResolver
		routes  *calcgraph.RouteResolver
	}
	current map[policy.Key]policy.Resource
	tunnels map[dataplane.TunnelKey]dataplane.Tunnel
	routes  map[netip.Prefix]dataplane.Route
	// events counts the calls of the receivers.
	events int
	// quiet networks only count, for benchmarks.
	quiet bool
}

var (
	_ calcgraph.RouteReceiver  = (*network)(nil)
	_ calcgraph.TunnelReceiver = (*network)(nil)
)

func newNetwork(t testing.TB) *network { return newNetworkWith(t, false) }

func newNetworkWith(t testing.TB, unreachable bool) *network {
	t.Helper()
	n := &network{
		t: t, current: map[policy.Key]policy.Resource{},
		tunnels: map[dataplane.TunnelKey]dataplane.Tunnel{}, routes: map[netip.Prefix]dataplane.Route{},
	}
	var err error
	n.resolvers.routes, err = calcgraph.NewRouteResolver(calcgraph.RouteResolverConfig{
		Node: node, Routes: n, UnreachableRoutes: unreachable,
	})
	require.NoError(t, err)
	n.resolvers.tunnels, err = calcgraph.NewTunnelResolver(calcgraph.TunnelResolverConfig{Node: node, Tunnels: n})
	require.NoError(t, err)
	return n
}

func (n *network) RouteUpdate(r *dataplane.Route) {
	if n.events++; n.quiet {
		return
	}
	require.NotEqual(n.t, n.routes[r.Dst], *r, "sent again")
	n.routes[r.Dst] = *r
}

func (n *network) RouteRemove(dst netip.Prefix) {
	if n.events++; n.quiet {
		return
	}
	require.Contains(n.t, n.routes, dst, "removes what was never sent")
	delete(n.routes, dst)
}

func (n *network) TunnelUpdate(t *dataplane.Tunnel) {
	if n.events++; n.quiet {
		n.resolvers.routes.TunnelUpdate(t)
		return
	}
	require.NotEqual(n.t, n.tunnels[t.Key()], *t, "sent again")
	for _, other := range n.tunnels {
		if other.Node != t.Node && other.IPVersion == t.IPVersion {
			// A changed endpoint may lose an address to one that is sent before it.
			require.False(n.t, other.Address == t.Address && n.current[nodeKey(other.Node)] == nil,
				"%s has the address", other.Node)
		}
	}
	n.tunnels[t.Key()] = *t
	n.resolvers.routes.TunnelUpdate(t)
}

func (n *network) TunnelRemove(k dataplane.TunnelKey) {
	if n.events++; n.quiet {
		n.resolvers.routes.TunnelRemove(k)
		return
	}
	require.Contains(n.t, n.tunnels, k, "removes what was never sent")
	delete(n.tunnels, k)
	n.resolvers.routes.TunnelRemove(k)
}

func nodeKey(name string) policy.Key { return policy.Key{Kind: policy.KindNode, Name: name} }

func (n *network) update(updates ...policy.Update) {
	for _, u := range updates {
		if u.Resource == nil {
			delete(n.current, u.Key)
			n.remove(u.Key)
			continue
		}
		if !n.quiet {
			n.current[u.Key] = u.Resource
		}
		switch r := u.Resource.(type) {
		case *policy.IPPool:
			n.resolvers.routes.UpdatePool(r)
		case *policy.Block:
			n.resolvers.routes.UpdateBlock(r)
		case *policy.Node:
			n.resolvers.tunnels.UpdateNode(r)
			n.resolvers.routes.UpdateNode(r)
		case *policy.WorkloadEndpoint:
			n.resolvers.routes.UpdateEndpoint(r)
		}
	}
}

// remove also deletes keys that do not exist, which must have no effect.
func (n *network) remove(k policy.Key) {
	switch k.Kind {
	case policy.KindIPPool:
		n.resolvers.routes.DeletePool(k.Name)
	case policy.KindBlock:
		n.resolvers.routes.DeleteBlock(k)
	case policy.KindNode:
		n.resolvers.routes.DeleteNode(k.Name)
		n.resolvers.tunnels.DeleteNode(k.Name)
	case policy.KindWorkloadEndpoint:
		n.resolvers.routes.DeleteEndpoint(k)
	}
}

func (n *network) flush() {
	n.t.Helper()
	n.resolvers.tunnels.Flush()
	n.resolvers.routes.Flush()
	seen := map[string]string{}
	for k, tunnel := range n.tunnels {
		for _, address := range []string{tunnel.Address.String(), fmt.Sprint(tunnel.MAC, k.IPVersion)} {
			if tunnel.Encapsulation == dataplane.EncapIPIP && address == fmt.Sprint(k.IPVersion) {
				continue // no MAC
			}
			other, has := seen[address]
			require.False(n.t, has && other != k.Node, "%s has address %s of %s", k, address, other)
			seen[address] = k.Node
		}
	}
	require.Equal(n.t, len(n.routes), n.resolvers.routes.Stats().Routes)
	for _, r := range n.routes {
		if k, ok := r.Tunnel(); ok {
			require.Contains(n.t, n.tunnels, k, "S96: route %s without its tunnel", &r)
		}
	}
}

// state returns the tunnels and routes, sorted, one on each line.
func (n *network) state() string { return networkState(n.tunnels, n.routes) }

func networkState(tunnels map[dataplane.TunnelKey]dataplane.Tunnel, routes map[netip.Prefix]dataplane.Route) string {
	var out strings.Builder
	for _, k := range slices.SortedFunc(maps.Keys(tunnels), dataplane.TunnelKey.Compare) {
		t := tunnels[k]
		fmt.Fprintln(&out, "tunnel", &t)
	}
	for _, dst := range slices.SortedFunc(maps.Keys(routes), dataplane.ComparePrefixes) {
		r := routes[dst]
		fmt.Fprintln(&out, &r)
	}
	return out.String()
}

func (n *network) requireEmpty() {
	n.t.Helper()
	require.Empty(n.t, n.state())
	require.True(n.t, n.resolvers.routes.Empty(), "the route resolver is not empty")
	require.True(n.t, n.resolvers.tunnels.Empty(), "the tunnel resolver is not empty")
}
