// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

func vxlanRoute() *dataplane.Route {
	return &dataplane.Route{
		Dst: netip.MustParsePrefix("10.0.1.2/32"), Type: dataplane.RouteRemoteWorkload, Node: "n2",
		NodeAddress: netip.MustParseAddr("192.168.0.2"), Pool: dataplane.PoolVXLAN, Borrowed: true, NATOutgoing: true,
	}
}

func tunnel() *dataplane.Tunnel {
	return &dataplane.Tunnel{
		Node: "n2", IPVersion: 4, Address: netip.MustParseAddr("10.0.1.1"), MAC: "66:3e:ca:a4:db:65",
		ParentAddress: netip.MustParseAddr("192.168.0.2"),
	}
}

func ipipTunnel() *dataplane.Tunnel {
	t := tunnel()
	t.Encapsulation, t.MAC = dataplane.EncapIPIP, ""
	return t
}

func TestNetworkEventStrings(t *testing.T) {
	direct := vxlanRoute()
	direct.Pool, direct.SameSubnet, direct.Borrowed = dataplane.PoolVXLANCrossSubnet, true, false
	local := tunnel()
	local.Node, local.IPVersion, local.Local = "n1", 6, true
	part := policy.Key{Kind: policy.KindServiceBackends, Namespace: "shop", Name: "web-1"}
	account := dataplane.ServiceAccountKey{Namespace: "shop", Name: "web"}
	batch := dataplane.Batch{Events: []dataplane.Event{
		&dataplane.RouteRemove{Dst: direct.Dst},
		&dataplane.TunnelRemove{Key: tunnel().Key()},
		&dataplane.TunnelUpdate{Tunnel: local},
		&dataplane.TunnelUpdate{Tunnel: tunnel()},
		&dataplane.TunnelUpdate{Tunnel: ipipTunnel()},
		&dataplane.TunnelUpdate{},
		&dataplane.RouteUpdate{Route: vxlanRoute()},
		&dataplane.RouteUpdate{Route: direct},
		&dataplane.RouteUpdate{
			Route: &dataplane.Route{Dst: netip.MustParsePrefix("fd00::/64"), Pool: dataplane.PoolDirect},
		},
		&dataplane.RouteUpdate{Route: &dataplane.Route{
			Dst: netip.MustParsePrefix("10.0.0.0/26"), Type: dataplane.RouteBlackhole, Node: "n1",
		}},
		&dataplane.RouteUpdate{},
		&dataplane.NodeUpdate{Node: &dataplane.Node{
			Name: "n2", Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.0.2/24")},
			Labels: map[string]string{"b": "2", "a": "1"},
		}},
		&dataplane.NodeUpdate{},
		&dataplane.NodeRemove{Name: "n3"},
		&dataplane.PoolUpdate{Pool: &dataplane.Pool{
			Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/16"), Type: dataplane.PoolIPIPCrossSubnet,
			NATOutgoing: true, Disabled: true,
		}},
		&dataplane.PoolUpdate{},
		&dataplane.PoolRemove{Name: "q"},
		&dataplane.ServiceUpdate{Service: &dataplane.Service{
			Key: part, Name: "web", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
			Ports: []policy.ServicePort{{Protocol: policy.ProtocolTCP, Port: 80}},
		}},
		&dataplane.ServiceUpdate{Service: &dataplane.Service{Key: part, Name: "web"}},
		&dataplane.ServiceUpdate{},
		&dataplane.ServiceRemove{Key: part},
		&dataplane.NamespaceUpdate{
			Namespace: &dataplane.Namespace{Name: "shop", Labels: map[string]string{"env": "prod"}},
		},
		&dataplane.NamespaceUpdate{},
		&dataplane.NamespaceRemove{Name: "old"},
		&dataplane.ServiceAccountUpdate{ServiceAccount: &dataplane.ServiceAccount{Key: account}},
		&dataplane.ServiceAccountUpdate{},
		&dataplane.ServiceAccountRemove{Key: account},
	}}
	require.Equal(t, `remove route 10.0.1.2/32
remove tunnel n2/v4
tunnel n1/v6 10.0.1.1 mac 66:3e:ca:a4:db:65 parent 192.168.0.2 local
tunnel n2/v4 10.0.1.1 mac 66:3e:ca:a4:db:65 parent 192.168.0.2
tunnel n2/v4/ipip 10.0.1.1 parent 192.168.0.2
tunnel nil
route 10.0.1.2/32 remote-workload node n2 via 192.168.0.2 pool vxlan borrowed nat-outgoing
route 10.0.1.2/32 remote-workload node n2 via 192.168.0.2 pool vxlan-cross-subnet same-subnet nat-outgoing
route fd00::/64 pool pool direct
route 10.0.0.0/26 blackhole node n1
route nil
node n2 [192.168.0.2/24] labels a=1,b=2
node nil
remove node n3
pool p 10.0.0.0/16 ipip-cross-subnet nat-outgoing disabled
pool nil
remove pool q
service ServiceBackends/shop/web-1 of web [10.0.0.1] ports tcp:80
service ServiceBackends/shop/web-1 of web []
service nil
remove service ServiceBackends/shop/web-1
namespace shop labels env=prod
namespace nil
remove namespace old
serviceaccount shop/web
serviceaccount nil
remove serviceaccount shop/web`, batch.String())
	require.Equal(t, "type-99", dataplane.RouteType(99).String())
	require.Equal(t, "type-6", dataplane.PoolType(6).String())
	require.Equal(t, "vxlan ipip encapsulation-2",
		fmt.Sprint(dataplane.EncapVXLAN, dataplane.EncapIPIP, dataplane.Encapsulation(2)))
}

// TestRouteTunnel: the routes of some pools lead through a tunnel.
func TestRouteTunnel(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*dataplane.Route)
		want   string
	}{
		{"VXLAN", func(*dataplane.Route) {}, "n2/v4"},
		{"IPv6", func(r *dataplane.Route) { r.Dst = netip.MustParsePrefix("fd00::/64") }, "n2/v6"},
		{"other subnet", func(r *dataplane.Route) { r.Pool = dataplane.PoolVXLANCrossSubnet }, "n2/v4"},
		{"same subnet", func(r *dataplane.Route) { r.Pool, r.SameSubnet = dataplane.PoolVXLANCrossSubnet, true }, ""},
		{"tunnel address", func(r *dataplane.Route) { r.Type = dataplane.RouteRemoteTunnel }, "n2/v4"},
		{"node in a pool", func(r *dataplane.Route) { r.Type = dataplane.RouteRemoteHost }, ""},
		{"local", func(r *dataplane.Route) { r.Type = dataplane.RouteBlackhole }, ""},
		{"no pool", func(r *dataplane.Route) { r.Pool = dataplane.PoolNone }, ""},
		{"direct", func(r *dataplane.Route) { r.Pool = dataplane.PoolDirect }, ""},
		{"unknown", func(r *dataplane.Route) { r.Pool = dataplane.PoolIPIPCrossSubnet + 1 }, ""},
		{"IP in IP", func(r *dataplane.Route) { r.Pool = dataplane.PoolIPIP }, "n2/v4/ipip"},
		{"IP in IP, other subnet", func(r *dataplane.Route) { r.Pool = dataplane.PoolIPIPCrossSubnet }, "n2/v4/ipip"},
		{"IP in IP, same subnet", func(r *dataplane.Route) {
			r.Pool, r.SameSubnet = dataplane.PoolIPIPCrossSubnet, true
		}, ""},
		{"IP in IP, node in a pool", func(r *dataplane.Route) {
			r.Pool, r.Type = dataplane.PoolIPIP, dataplane.RouteRemoteHost
		}, ""},
	} {
		r := vxlanRoute()
		c.change(r)
		key, ok := r.Tunnel()
		require.Equal(t, c.want != "", ok, c.name)
		if ok {
			require.Equal(t, c.want, key.String(), c.name)
		}
	}
}

func TestNetworkEqual(t *testing.T) {
	var route *dataplane.Route
	var tun *dataplane.Tunnel
	var n *dataplane.Node
	var p *dataplane.Pool
	var s *dataplane.Service
	var ns *dataplane.Namespace
	var a *dataplane.ServiceAccount
	require.True(t, route.Equal(nil) && tun.Equal(nil) && n.Equal(nil) && p.Equal(nil) && s.Equal(nil) &&
		ns.Equal(nil) && a.Equal(nil))
	require.False(t, vxlanRoute().Equal(nil) || tunnel().Equal(nil) || n.Equal(&dataplane.Node{}) ||
		p.Equal(&dataplane.Pool{}) ||
		s.Equal(&dataplane.Service{}) || ns.Equal(&dataplane.Namespace{}) || a.Equal(&dataplane.ServiceAccount{}))
	require.True(t, vxlanRoute().Equal(vxlanRoute()) && tunnel().Equal(tunnel()))

	for _, change := range []func(*dataplane.Route){
		func(r *dataplane.Route) { r.Dst = netip.MustParsePrefix("10.0.1.3/32") },
		func(r *dataplane.Route) { r.Type++ }, func(r *dataplane.Route) { r.Node = "x" },
		func(r *dataplane.Route) { r.NodeAddress = netip.Addr{} }, func(r *dataplane.Route) { r.Pool++ },
		func(r *dataplane.Route) { r.SameSubnet = true }, func(r *dataplane.Route) { r.Borrowed = false },
		func(r *dataplane.Route) { r.NATOutgoing = false },
	} {
		r := vxlanRoute()
		change(r)
		require.False(t, r.Equal(vxlanRoute()), r)
	}
	prefix := []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}
	addr := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	labels := map[string]string{"a": "b"}
	for i, other := range []*dataplane.Node{{Name: "x"}, {Addresses: prefix}, {Labels: labels}} {
		require.False(t, other.Equal(&dataplane.Node{}), i)
	}
	require.True(t, (&dataplane.Node{Labels: map[string]string{}}).Equal(&dataplane.Node{Addresses: []netip.Prefix{}}))
	for i, other := range []*dataplane.Service{
		{Name: "x"}, {Addresses: addr}, {Key: policyKey("x")}, {Ports: []policy.ServicePort{{Port: 1}}},
	} {
		require.False(t, other.Equal(&dataplane.Service{}), i)
	}
	require.False(t, (&dataplane.Pool{Disabled: true}).Equal(&dataplane.Pool{}))
	require.False(t, (&dataplane.Namespace{Labels: labels}).Equal(&dataplane.Namespace{}))
	require.False(t, (&dataplane.Namespace{Name: "x"}).Equal(&dataplane.Namespace{}))
	require.False(t, (&dataplane.ServiceAccount{Labels: labels}).Equal(&dataplane.ServiceAccount{}))
	require.False(t,
		(&dataplane.ServiceAccount{Key: dataplane.ServiceAccountKey{Name: "x"}}).Equal(&dataplane.ServiceAccount{}))
}

func TestNetworkOrder(t *testing.T) {
	var prefixes []netip.Prefix
	for _, s := range []string{"10.0.0.0/8", "10.0.0.0/16", "10.0.0.1/32", "10.1.0.0/16", "::/0", "fd00::/8"} {
		prefixes = append(prefixes, netip.MustParsePrefix(s))
	}
	require.True(t, slices.IsSortedFunc(prefixes, dataplane.ComparePrefixes))
	require.Zero(t, dataplane.ComparePrefixes(prefixes[0], prefixes[0]))
	keys := []dataplane.TunnelKey{
		{Node: "a", IPVersion: 4},
		{Node: "a", IPVersion: 4, Encapsulation: dataplane.EncapIPIP},
		{Node: "a", IPVersion: 6},
		{Node: "b", IPVersion: 4},
	}
	require.True(t, slices.IsSortedFunc(keys, dataplane.TunnelKey.Compare))
	keys[1].Node = "n2"
	require.Equal(t, keys[1], ipipTunnel().Key())
	accounts := []dataplane.ServiceAccountKey{
		{Namespace: "a", Name: "y"}, {Namespace: "b", Name: "x"}, {Namespace: "b", Name: "y"},
	}
	require.True(t, slices.IsSortedFunc(accounts, dataplane.ServiceAccountKey.Compare))
}

// TestDriverPassesNetworkOn: every dataplane gets routes, tunnels and names, in the order of a
// batch. This is also so while an endpoint is being removed or one of the dataplanes fails.
func TestDriverPassesNetworkOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		full := world("a", "b")
		full.Routes[vxlanRoute().Dst] = vxlanRoute()
		full.Tunnels[tunnel().Key()], full.Tunnels[ipipTunnel().Key()] = tunnel(), ipipTunnel()
		full.Nodes["n2"] = &dataplane.Node{Name: "n2"}
		r.fail("policy", errBoom)
		r.send(full)
		r.fail("policy", nil)
		require.NoError(t, r.driver.WaitProgrammed(t.Context(), endpointKey("a")))
		requireSame(t, r, full)

		less := world("c")
		less.Pools["p"] = &dataplane.Pool{
			Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/8"), Type: dataplane.PoolDirect,
		}
		r.send(less)
		requireSame(t, r, less)
	})
}

func requireSame(t *testing.T, r *rig, want dptest.State) {
	t.Helper()
	synctest.Wait()
	for _, name := range r.names {
		require.Equal(t, want.String(), r.state(name).String(), name)
	}
}
