// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"maps"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// addNetwork adds tunnels, a route of each type in both families, and an object of each kind that
// has a name.
func addNetwork(s dptest.State) {
	for _, t := range []dataplane.Tunnel{
		{
			Node: "here", Address: netip.MustParseAddr("10.98.0.0"), MAC: "66:00:00:00:98:01",
			ParentAddress: netip.MustParseAddr("192.0.2.1"), Local: true,
		},
		{
			Node: "there", Address: netip.MustParseAddr("10.98.1.0"), MAC: "66:00:00:00:98:02",
			ParentAddress: netip.MustParseAddr("192.0.2.2"),
		},
		{
			Node: "there", Address: netip.MustParseAddr("fd00:98:1::"), MAC: "66:00:00:00:98:03",
			ParentAddress: netip.MustParseAddr("2001:db8::2"),
		},
		{
			Node: "here", Address: netip.MustParseAddr("10.97.0.0"), Encapsulation: dataplane.EncapIPIP,
			ParentAddress: netip.MustParseAddr("192.0.2.1"), Local: true,
		},
		{
			Node: "there", Address: netip.MustParseAddr("10.97.1.0"), Encapsulation: dataplane.EncapIPIP,
			ParentAddress: netip.MustParseAddr("192.0.2.2"),
		},
	} {
		if t.IPVersion = 6; t.Address.Is4() {
			t.IPVersion = 4
		}
		s.Tunnels[t.Key()] = &t
	}
	// by Is4
	parents := map[bool]netip.Addr{true: netip.MustParseAddr("192.0.2.2"), false: netip.MustParseAddr("2001:db8::2")}
	for dst, typ := range map[string]dataplane.RouteType{
		"10.98.0.0/16": dataplane.RoutePool, "fd00:98::/32": dataplane.RoutePool,
		"10.99.0.0/26": dataplane.RouteBlackhole, "fd00:99::/64": dataplane.RouteBlackhole,
		"10.99.0.1/32": dataplane.RouteLocalWorkload, "fd00:99::1/128": dataplane.RouteLocalWorkload,
		"10.98.1.0/26": dataplane.RouteRemoteWorkload, "fd00:98:1::/64": dataplane.RouteRemoteWorkload,
		"10.98.0.0/32": dataplane.RouteLocalTunnel,
		"10.98.1.0/32": dataplane.RouteRemoteTunnel, "fd00:98:1::/128": dataplane.RouteRemoteTunnel,
		"10.97.0.0/16": dataplane.RoutePool, "10.97.1.0/26": dataplane.RouteRemoteWorkload,
		"10.97.0.0/32": dataplane.RouteLocalTunnel, "10.97.1.0/32": dataplane.RouteRemoteTunnel,
		"10.98.3.0/26": dataplane.RouteRemoteWorkload,
		"10.98.2.0/26": dataplane.RouteRemoteUnreachable, "fd00:98:2::/64": dataplane.RouteRemoteUnreachable,
		"192.0.2.1/32": dataplane.RouteLocalHost, "2001:db8::1/128": dataplane.RouteLocalHost,
		"192.0.2.2/32": dataplane.RouteRemoteHost, "2001:db8::2/128": dataplane.RouteRemoteHost,
	} {
		r := dataplane.Route{Dst: netip.MustParsePrefix(dst), Type: typ, Node: "here", Pool: dataplane.PoolVXLAN}
		if netip.MustParsePrefix("10.97.0.0/16").Contains(r.Dst.Addr()) {
			r.Pool = dataplane.PoolIPIP
		}
		switch {
		case typ == dataplane.RoutePool:
			r.Node = ""
		case typ == dataplane.RouteRemoteUnreachable:
			r.Node = "gone"
		case typ.Remote():
			r.Node, r.NodeAddress = "there", parents[r.Dst.Addr().Is4()]
		}
		s.Routes[r.Dst] = &r
	}
	s.Nodes["gone"] = &dataplane.Node{Name: "gone"} // without an address, so there is no path to it
	s.Nodes["there"] = &dataplane.Node{Name: "there", Addresses: prefixes("192.0.2.2/32", "2001:db8::2/128")}
	s.Pools["p"] = &dataplane.Pool{
		Name: "p", CIDR: netip.MustParsePrefix("10.98.0.0/16"), Type: dataplane.PoolVXLAN, NATOutgoing: true,
	}
	s.Namespaces["shop"] = &dataplane.Namespace{Name: "shop"}
	part := policy.Key{Kind: policy.KindServiceBackends, Namespace: "shop", Name: "web-1"}
	s.Services[part] = &dataplane.Service{
		Key: part, Name: "web", Addresses: []netip.Addr{netip.MustParseAddr("10.99.0.1")},
	}
	account := dataplane.ServiceAccountKey{Namespace: "shop", Name: "web"}
	s.ServiceAccounts[account] = &dataplane.ServiceAccount{Key: account}
}

// withoutIPIP returns the state without IP-in-IP tunnels and the routes through them.
func withoutIPIP(s dptest.State) dptest.State {
	s = s.Clone()
	maps.DeleteFunc(s.Tunnels, func(k dataplane.TunnelKey, _ *dataplane.Tunnel) bool {
		return k.Encapsulation == dataplane.EncapIPIP
	})
	maps.DeleteFunc(s.Routes, func(_ netip.Prefix, r *dataplane.Route) bool {
		k, ok := r.Tunnel()
		return ok && k.Encapsulation == dataplane.EncapIPIP
	})
	return s
}

// changeNetwork changes the objects that addNetwork added. Of each kind, it removes, adds or
// changes one.
func changeNetwork(s dptest.State) {
	delete(s.Tunnels, dataplane.TunnelKey{Node: "there", IPVersion: 6})
	delete(s.Routes, netip.MustParsePrefix("fd00:98:1::/64"))
	delete(s.Routes, netip.MustParsePrefix("fd00:98:1::/128"))
	delete(s.Routes, netip.MustParsePrefix("10.99.0.1/32"))
	block := *s.Routes[netip.MustParsePrefix("10.98.1.0/26")]
	block.Pool, block.SameSubnet = dataplane.PoolVXLANCrossSubnet, true
	s.Routes[block.Dst] = &block
	inIPIP := *s.Routes[netip.MustParsePrefix("10.97.1.0/26")] // and no longer through the tunnel
	inIPIP.Pool, inIPIP.SameSubnet = dataplane.PoolIPIPCrossSubnet, true
	s.Routes[inIPIP.Dst] = &inIPIP
	delete(s.Routes, netip.MustParsePrefix("10.97.1.0/32"))
	delete(s.Tunnels, dataplane.TunnelKey{Node: "there", IPVersion: 4, Encapsulation: dataplane.EncapIPIP})
	found := block
	found.Dst = netip.MustParsePrefix("10.98.2.0/26")
	s.Routes[found.Dst] = &found
	lost := *s.Routes[netip.MustParsePrefix("10.98.3.0/26")]
	lost.Type, lost.NodeAddress = dataplane.RouteRemoteUnreachable, netip.Addr{}
	s.Routes[lost.Dst] = &lost
	lent := block
	lent.Dst, lent.Borrowed, lent.SameSubnet = netip.MustParsePrefix("10.98.1.7/32"), true, false
	s.Routes[lent.Dst] = &lent
	delete(s.Nodes, "gone")
	delete(s.Routes, netip.MustParsePrefix("fd00:98:2::/64"))
	s.Nodes["elsewhere"] = &dataplane.Node{Name: "elsewhere"}
	s.Pools["p"] = &dataplane.Pool{
		Name: "p", CIDR: netip.MustParsePrefix("10.98.0.0/16"), Type: dataplane.PoolVXLANCrossSubnet,
	}
	clear(s.Services)
	clear(s.Namespaces)
	clear(s.ServiceAccounts)
}
