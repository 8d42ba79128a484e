// SPDX-License-Identifier: Apache-2.0

package dptest_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// route is a route through the tunnel of n2, unless change makes it another.
func route(dst string, change func(*dataplane.Route)) *dataplane.RouteUpdate {
	r := &dataplane.Route{
		Dst: prefix(dst), Type: dataplane.RouteRemoteWorkload, Node: "n2", NodeAddress: addr("192.168.0.2"),
		Pool: dataplane.PoolVXLAN,
	}
	if change != nil {
		change(r)
	}
	return &dataplane.RouteUpdate{Route: r}
}

func tunnelOf(name, address string, change func(*dataplane.Tunnel)) *dataplane.TunnelUpdate {
	t := &dataplane.Tunnel{
		Node: name, IPVersion: 4, Address: addr(address), MAC: "66:00:00:00:00:0" + name[1:],
		ParentAddress: addr("192.168.0.2"),
	}
	if change != nil {
		change(t)
	}
	return &dataplane.TunnelUpdate{Tunnel: t}
}

var (
	backends = policy.Key{Kind: policy.KindServiceBackends, Namespace: "shop", Name: "web-1"}
	account  = dataplane.ServiceAccountKey{Namespace: "shop", Name: "web"}
	direct   = func(r *dataplane.Route) { r.Pool = dataplane.PoolDirect }
	ipip     = func(t *dataplane.Tunnel) { t.Encapsulation, t.MAC = dataplane.EncapIPIP, "" }
)

// network is a mirror with two tunnels, routes through one of them and of other types, and names.
func network(t *testing.T) *dptest.Mirror {
	m := dptest.NewMirror()
	require.NoError(t, m.Play(dataplane.Batch{Events: []dataplane.Event{
		tunnelOf("n2", "10.0.1.1", nil), tunnelOf("n3", "10.0.2.1", nil),
		route("10.0.0.0/16", func(r *dataplane.Route) {
			*r = dataplane.Route{Dst: r.Dst, Pool: dataplane.PoolVXLAN, NATOutgoing: true}
		}),
		route("10.0.0.0/26", func(r *dataplane.Route) {
			*r = dataplane.Route{Dst: r.Dst, Type: dataplane.RouteBlackhole, Node: "n1", Pool: dataplane.PoolVXLAN}
		}),
		route("10.0.1.0/26", nil),
		route("10.0.1.2/32", func(r *dataplane.Route) { r.Borrowed = true }),
		&dataplane.NodeUpdate{Node: &dataplane.Node{Name: "n2", Addresses: []netip.Prefix{prefix("192.168.0.2/24")}}},
		&dataplane.PoolUpdate{Pool: &dataplane.Pool{Name: "p", CIDR: prefix("10.0.0.0/16"), Type: dataplane.PoolVXLAN}},
		&dataplane.ServiceUpdate{
			Service: &dataplane.Service{Key: backends, Name: "web", Addresses: []netip.Addr{addr("10.0.0.1")}},
		},
		&dataplane.NamespaceUpdate{Namespace: &dataplane.Namespace{Name: "shop"}},
		&dataplane.ServiceAccountUpdate{ServiceAccount: &dataplane.ServiceAccount{Key: account}},
		&dataplane.InSync{},
	}}))
	return m
}

func onRoute(dst string, change func(*dataplane.Route)) []dataplane.Event {
	return []dataplane.Event{route(dst, change)}
}

// The tests of refusals play batches that each break one promise on top of network.
func TestMirrorRefusesNetworkOrder(t *testing.T) {
	requireRefused(t, network, []refusal{
		{"S96 route before tunnel", "out of order", []dataplane.Event{
			route("10.0.9.0/26", direct), tunnelOf("n4", "10.0.4.1", nil),
		}},
		{"S96 tunnel add before route remove", "out of order", []dataplane.Event{
			tunnelOf("n4", "10.0.4.1", nil), &dataplane.RouteRemove{Dst: prefix("10.0.1.0/26")},
		}},
		{"S96 tunnel add before tunnel remove", "out of order", []dataplane.Event{
			tunnelOf("n4", "10.0.4.1", nil),
			&dataplane.TunnelRemove{Key: dataplane.TunnelKey{Node: "n3", IPVersion: 4}},
		}},
		{"S96 tunnel remove before route remove", "out of order", []dataplane.Event{
			&dataplane.TunnelRemove{Key: dataplane.TunnelKey{Node: "n3", IPVersion: 4}},
			&dataplane.RouteRemove{Dst: prefix("10.0.1.0/26")},
		}},
		{"S96 route without its tunnel", "absent tunnel n9/v4", onRoute("10.0.9.0/26", func(r *dataplane.Route) {
			r.Node = "n9"
		})},
		{"S96 tunnel removed, routes not", "2 routes lead through the removed tunnel n2/v4", []dataplane.Event{
			&dataplane.TunnelRemove{Key: dataplane.TunnelKey{Node: "n2", IPVersion: 4}},
		}},
		{"S96 tunnel removed, one route not", "1 routes lead", []dataplane.Event{
			&dataplane.TunnelRemove{Key: dataplane.TunnelKey{Node: "n2", IPVersion: 4}}, route("10.0.1.0/26", direct),
		}},
		{"names before routes", "out of order", []dataplane.Event{
			&dataplane.NodeRemove{Name: "n2"}, route("10.0.9.0/26", nil),
		}},
		{"policy after routes", "out of order", []dataplane.Event{route("10.0.9.0/26", nil), pol(polKey)}},
		{"remove before update of nodes", "out of order", []dataplane.Event{
			&dataplane.NodeRemove{Name: "n2"}, &dataplane.NodeUpdate{Node: &dataplane.Node{Name: "n3"}},
		}},
		{"nodes after pools", "out of order", []dataplane.Event{
			&dataplane.PoolRemove{Name: "p"}, &dataplane.NodeRemove{Name: "n2"},
		}},
		{"routes unsorted", "not sorted", []dataplane.Event{route("10.0.9.64/26", nil), route("10.0.9.0/26", nil)}},
		{"tunnels unsorted", "not sorted", []dataplane.Event{
			tunnelOf("n5", "10.0.4.1", nil), tunnelOf("n4", "10.0.5.1", nil),
		}},
		{"accounts unsorted", "not sorted", []dataplane.Event{
			&dataplane.ServiceAccountUpdate{
				ServiceAccount: &dataplane.ServiceAccount{Key: dataplane.ServiceAccountKey{Namespace: "b", Name: "a"}},
			},
			&dataplane.ServiceAccountUpdate{
				ServiceAccount: &dataplane.ServiceAccount{Key: dataplane.ServiceAccountKey{Namespace: "a", Name: "b"}},
			},
		}},
		{"route removed and made", "second event", []dataplane.Event{
			&dataplane.RouteRemove{Dst: prefix("10.0.1.0/26")}, route("10.0.1.0/26", nil),
		}},
		{"tunnel removed and made", "second event", []dataplane.Event{
			&dataplane.TunnelRemove{Key: dataplane.TunnelKey{Node: "n3", IPVersion: 4}},
			tunnelOf("n3", "10.0.2.1", nil),
		}},
		{"no route", "unknown event", []dataplane.Event{&dataplane.RouteUpdate{}}},
		{"no tunnel", "unknown event", []dataplane.Event{&dataplane.TunnelUpdate{}}},
		{"no node", "unknown event", []dataplane.Event{&dataplane.NodeUpdate{}}},
		{"no pool", "unknown event", []dataplane.Event{&dataplane.PoolUpdate{}}},
		{"no service", "unknown event", []dataplane.Event{&dataplane.ServiceUpdate{}}},
		{"no namespace", "unknown event", []dataplane.Event{&dataplane.NamespaceUpdate{}}},
		{"no account", "unknown event", []dataplane.Event{&dataplane.ServiceAccountUpdate{}}},

		{"removes an absent route", "does not exist", []dataplane.Event{
			&dataplane.RouteRemove{Dst: prefix("10.0.9.0/26")},
		}},
		{"removes an absent tunnel", "does not exist", []dataplane.Event{
			&dataplane.TunnelRemove{Key: dataplane.TunnelKey{Node: "n2", IPVersion: 6}},
		}},
		{"removes an absent node", "does not exist", []dataplane.Event{&dataplane.NodeRemove{Name: "n9"}}},
		{"removes an absent pool", "does not exist", []dataplane.Event{&dataplane.PoolRemove{Name: "q"}}},
		{"removes an absent service", "does not exist", []dataplane.Event{&dataplane.ServiceRemove{Key: polKey}}},
		{"removes an absent namespace", "does not exist", []dataplane.Event{&dataplane.NamespaceRemove{Name: "q"}}},
		{"removes an absent account", "does not exist", []dataplane.Event{&dataplane.ServiceAccountRemove{}}},
	})
}

func TestMirrorRefusesRoutes(t *testing.T) {
	requireRefused(t, network, []refusal{
		{"host bits", "host bits", onRoute("10.0.9.1/26", nil)},
		{"zero prefix", "not a prefix", []dataplane.Event{&dataplane.RouteUpdate{Route: &dataplane.Route{}}}},
		{"type", "unknown type", onRoute("10.0.9.0/26", func(r *dataplane.Route) { r.Type = 99 })},
		{"pool type", "unknown type of pool", onRoute("10.0.9.0/26", func(r *dataplane.Route) { r.Pool = 99 })},
		{"no node", "without a node", onRoute("10.0.9.0/26", func(r *dataplane.Route) { r.Node = "" })},
		{"pool with a node", "a pool with one", onRoute("10.0.9.0/26", func(r *dataplane.Route) {
			r.Type = dataplane.RoutePool
		})},
		{"route of an absent pool", "without a pool", []dataplane.Event{
			&dataplane.RouteUpdate{Route: &dataplane.Route{Dst: prefix("10.0.9.0/26")}},
		}},
		{"local workload that is a prefix", "want an address", onRoute("10.0.9.0/26", func(r *dataplane.Route) {
			r.Type = dataplane.RouteLocalWorkload
		})},
		{"borrowed prefix", "borrowed", onRoute("10.0.9.0/26", func(r *dataplane.Route) { r.Borrowed = true })},
		{"borrowed host", "borrowed", onRoute("10.0.9.0/32", func(r *dataplane.Route) {
			r.Borrowed, r.Type = true, dataplane.RouteRemoteHost
		})},
		{"NAT of no pool", "NAT", onRoute("10.0.9.0/32", func(r *dataplane.Route) {
			r.NATOutgoing, r.Pool = true, dataplane.PoolNone
		})},
		{"node address of a local route", "without a remote node", onRoute("10.0.9.0/26", func(r *dataplane.Route) {
			r.Type = dataplane.RouteBlackhole
		})},
		{"same subnet without a cross-subnet pool", "SameSubnet", onRoute("10.0.9.0/26", func(r *dataplane.Route) {
			r.SameSubnet = true
		})},
		{"no node address", "no NodeAddress", onRoute("10.0.9.0/26", func(r *dataplane.Route) {
			r.NodeAddress = netip.Addr{}
		})},
		{"node of the other family", "wrong family", onRoute("10.0.9.0/26", func(r *dataplane.Route) {
			r.NodeAddress = addr("fd00::1")
		})},
		{"mapped node", "not canonical", onRoute("10.0.9.0/26", func(r *dataplane.Route) {
			r.NodeAddress = addr("::ffff:10.0.0.1")
		})},
	})
}

func TestMirrorRefusesNetworkObjects(t *testing.T) {
	tun := func(change func(*dataplane.Tunnel)) []dataplane.Event {
		return []dataplane.Event{tunnelOf("n4", "10.0.4.1", change)}
	}
	requireRefused(t, network, []refusal{
		{"version", "IP version", tun(func(t *dataplane.Tunnel) { t.IPVersion = 5 })},
		{"tunnel of the other family", "wrong family", tun(func(t *dataplane.Tunnel) { t.IPVersion = 6 })},
		{"no parent", "not canonical", tun(func(t *dataplane.Tunnel) { t.ParentAddress = netip.Addr{} })},
		{"encapsulation", "unknown encapsulation", tun(func(t *dataplane.Tunnel) { t.Encapsulation = 2 })},
		{"IP in IP with a MAC", "no MAC address", tun(func(t *dataplane.Tunnel) {
			t.Encapsulation = dataplane.EncapIPIP
		})},
		{"IP in IP of IPv6", "IPv4 only", tun(func(t *dataplane.Tunnel) {
			t.Encapsulation, t.IPVersion, t.MAC = dataplane.EncapIPIP, 6, ""
			t.Address, t.ParentAddress = addr("fd00::1"), addr("2001:db8::1")
		})},
		{"one address of two encapsulations", "n4 have the same address 10.0.2.1", tun(func(t *dataplane.Tunnel) {
			ipip(t)
			t.Address = addr("10.0.2.1")
		})},
		{"MAC", "not a MAC address", tun(func(t *dataplane.Tunnel) { t.MAC = "66:AA:00:00:00:01" })},
		{"tunnel without a node", "no name", tun(func(t *dataplane.Tunnel) { t.Node = "" })},
		{"one address twice", "tunnels n3 and n4 have the same address 10.0.2.1", tun(func(t *dataplane.Tunnel) {
			t.Address = addr("10.0.2.1")
		})},
		{"one MAC twice", "the same address 66:00", tun(func(t *dataplane.Tunnel) { t.MAC = "66:00:00:00:00:03" })},

		{"nameless node", "no name", []dataplane.Event{&dataplane.NodeUpdate{Node: &dataplane.Node{}}}},
		{"node's address", "not canonical", []dataplane.Event{
			&dataplane.NodeUpdate{Node: &dataplane.Node{Name: "n", Addresses: []netip.Prefix{{}}}},
		}},
		{"pool's type", "unknown type", []dataplane.Event{
			&dataplane.PoolUpdate{Pool: &dataplane.Pool{Name: "q", CIDR: prefix("10.0.0.0/8")}},
		}},
		{"pool's CIDR", "host bits", []dataplane.Event{
			&dataplane.PoolUpdate{Pool: &dataplane.Pool{Name: "q", CIDR: prefix("10.0.0.1/8"), Type: 1}},
		}},
		{"nameless pool", "no name", []dataplane.Event{
			&dataplane.PoolUpdate{Pool: &dataplane.Pool{CIDR: prefix("10.0.0.0/8"), Type: 1}},
		}},
		{"service's key", "key is not", []dataplane.Event{
			&dataplane.ServiceUpdate{Service: &dataplane.Service{Key: polKey, Name: "web"}},
		}},
		{"service's name", "no name", []dataplane.Event{
			&dataplane.ServiceUpdate{Service: &dataplane.Service{Key: backends}},
		}},
		{"service's addresses", "not distinct", []dataplane.Event{&dataplane.ServiceUpdate{Service: &dataplane.Service{
			Key: backends, Name: "web", Addresses: []netip.Addr{addr("10.0.0.1"), addr("10.0.0.1")},
		}}}},
		{"service's mapped address", "not canonical", []dataplane.Event{
			&dataplane.ServiceUpdate{Service: &dataplane.Service{
				Key: backends, Name: "web", Addresses: []netip.Addr{addr("::ffff:10.0.0.1")},
			}},
		}},
		{"nameless namespace", "no name", []dataplane.Event{
			&dataplane.NamespaceUpdate{Namespace: &dataplane.Namespace{}},
		}},
		{"nameless account", "no name", []dataplane.Event{&dataplane.ServiceAccountUpdate{
			ServiceAccount: &dataplane.ServiceAccount{Key: dataplane.ServiceAccountKey{Namespace: "n"}},
		}}},
	})
}

// TestMirrorFollowsNetwork plays changes that keep all promises. The last one removes everything.
func TestMirrorFollowsNetwork(t *testing.T) {
	m := network(t)
	full := m.State()
	play := func(events ...dataplane.Event) { require.NoError(t, m.Play(dataplane.Batch{Events: events})) }

	// A tunnel is removed while its routes are removed or replaced by others. Two tunnels swap
	// addresses.
	play(&dataplane.RouteRemove{Dst: prefix("10.0.1.2/32")},
		&dataplane.TunnelRemove{Key: dataplane.TunnelKey{Node: "n2", IPVersion: 4}}, route("10.0.1.0/26", direct))
	play(tunnelOf("n2", "10.0.2.1", nil), tunnelOf("n3", "10.0.1.1", nil), route("10.0.1.0/26", nil))
	require.False(t, full.Equal(m.State()))
	require.True(t, dptest.Transition(m.State(), m.State()).Empty())
	play(dptest.Transition(m.State(), full).Events...)
	require.True(t, full.Equal(m.State()), "back")

	// Each node has tunnels of both encapsulations, of one address and of two.
	inIPIP := func(r *dataplane.Route) { r.Pool = dataplane.PoolIPIP }
	play(tunnelOf("n2", "10.0.1.1", ipip), tunnelOf("n3", "10.0.2.2", ipip), route("10.0.1.0/26", inIPIP))
	play(dptest.Transition(m.State(), full).Events...)

	empty := dptest.NewState()
	empty.InSync = true
	play(dptest.Transition(m.State(), empty).Events...)
	require.Equal(t, "in-sync\n", m.State().String())
	require.NotEqual(t, full.String(), m.State().String(), "State is a copy")
}

func TestNetworkStateString(t *testing.T) {
	require.Equal(t, `tunnel n2/v4 10.0.1.1 mac 66:00:00:00:00:02 parent 192.168.0.2
tunnel n3/v4 10.0.2.1 mac 66:00:00:00:00:03 parent 192.168.0.2
route 10.0.0.0/16 pool pool vxlan nat-outgoing
route 10.0.0.0/26 blackhole node n1 pool vxlan
route 10.0.1.0/26 remote-workload node n2 via 192.168.0.2 pool vxlan
route 10.0.1.2/32 remote-workload node n2 via 192.168.0.2 pool vxlan borrowed
node n2 [192.168.0.2/24]
pool p 10.0.0.0/16 vxlan
service ServiceBackends/shop/web-1 of web [10.0.0.1]
namespace shop
serviceaccount shop/web
in-sync
`, network(t).State().String())
}
