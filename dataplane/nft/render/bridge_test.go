// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// bridgedState is hostState with way5, which is routed. Of way1 to way4, which are ports of br0,
// way3 is down.
func bridgedState() (dptest.State, map[string]string) {
	s := hostState()
	s.Endpoints[nfttest.EndpointKey("way5")] = &dataplane.Endpoint{
		Interface: "way5", Addresses: nfttest.Addresses("10.0.0.5", "fd00::5"), Profiles: []string{"all"},
	}
	return s, map[string]string{"way1": "br0", "way2": "br0", "way3": "br0", "way4": "br0"}
}

// bridgedTable returns the table of bridgedState.
func bridgedTable(t *testing.T, cfg render.Config) *ruleset.Table {
	t.Helper()
	s, of := bridgedState()
	cfg.Bridges = nfttest.Bridges()
	table, errs := scenario{Config: cfg, Batches: []dataplane.Batch{nfttest.Transition(s)}, Ports: of}.rendered(t)
	require.Empty(t, errs)
	return table
}

// S171: policy of the endpoint with their address applies to the packets of a bridge. They drop if
// no endpoint has it.
func TestBridgedEndpoints(t *testing.T) { nfttest.EachForm(t, testBridgedEndpoints) }

func testBridgedEndpoints(t *testing.T, classes render.ClassesConfig) {
	const host = "10.0.0.254"
	for _, c := range []struct {
		name   string
		hook   ruleset.HookPoint
		packet simPacket
		want   bool
	}{
		{"to the outside", ruleset.Forward, tcpPacket("br0", "10.0.0.1", "eth0", "8.8.8.8", 0), true},
		{"over IPv6", ruleset.Forward, tcpPacket("br0", "fd00::1", "eth0", "2001:db8::1", 0), true},
		{"from the outside", ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "br0", "10.0.0.1", 0), true},
		{"from the outside over IPv6", ruleset.Forward, tcpPacket("eth0", "2001:db8::1", "br0", "fd00::1", 0), true},
		{"to a routed one", ruleset.Forward, tcpPacket("br0", "10.0.0.1", "way5", "10.0.0.5", 0), true},
		{"from a routed one", ruleset.Forward, tcpPacket("way5", "10.0.0.5", "br0", "10.0.0.1", 0), true},
		{"between ports", ruleset.Forward, tcpPacket("br0", "10.0.0.4", "br0", "10.0.0.1", 0), true},
		{"to the host", ruleset.Input, tcpPacket("br0", "10.0.0.1", "", host, 0), true},
		{"from the host", ruleset.Output, tcpPacket("", host, "br0", "10.0.0.1", 0), true},
		{"from the host over IPv6", ruleset.Output, tcpPacket("", "fd00::254", "br0", "fd00::1", 0), true},
		{"from the host to a service", ruleset.Postrouting, translatedPacket("br0", "10.0.0.1"), true},
		{"by its own interface", ruleset.Forward, tcpPacket("way1", "10.0.0.1", "eth0", "8.8.8.8", 0), false},
		{"to its own interface", ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "way1", "10.0.0.1", 0), false},
		{"by another bridge", ruleset.Forward, tcpPacket("br1", "10.0.0.1", "eth0", "8.8.8.8", 0), false},
		{"to another bridge", ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "br1", "10.0.0.1", 0), false},
		{"the source of a routed one", ruleset.Forward, tcpPacket("br0", "10.0.0.5", "eth0", "8.8.8.8", 0), false},
		{"the destination of a routed one", ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "br0", "10.0.0.5", 0), false},
		{"its source at a routed one", ruleset.Forward, tcpPacket("way5", "10.0.0.1", "eth0", "8.8.8.8", 0), false},
		{"an unknown source", ruleset.Forward, tcpPacket("br0", "10.0.0.77", "eth0", "8.8.8.8", 0), false},
		{"an unknown destination", ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "br0", "10.0.0.77", 0), false},
		{"an unknown port", ruleset.Forward, tcpPacket("br0", "10.0.0.1", "br0", "10.0.0.77", 0), false},
		{"from an unknown port", ruleset.Forward, tcpPacket("br0", "10.0.0.77", "br0", "10.0.0.1", 0), false},
		{"a broadcast between ports", ruleset.Forward, tcpPacket("br0", "10.0.0.1", "br0", "10.0.0.255", 0), false},
		{"a multicast between ports", ruleset.Forward, tcpPacket("br0", "10.0.0.1", "br0", "224.0.0.1", 0), false},
		{"one that is down", ruleset.Forward, tcpPacket("br0", "10.0.0.3", "eth0", "8.8.8.8", 0), false},
		{"to one that is down", ruleset.Forward, tcpPacket("br0", "10.0.0.1", "br0", "10.0.0.3", 0), false},
		{"an allowed source", ruleset.Forward, tcpPacket("br0", "192.168.7.7", "eth0", "8.8.8.8", 0), false},
		{"an unknown source to the host", ruleset.Input, tcpPacket("br0", "10.0.0.77", "", host, 0), false},
		{"no source to the host", ruleset.Input, tcpPacket("br0", "0.0.0.0", "", host, 0), false},
		{"a link-local source to the host", ruleset.Input, tcpPacket("br0", "fe80::1", "", "fd00::254", 0), false},
		{"down, to the host", ruleset.Input, tcpPacket("br0", "10.0.0.3", "", host, 0), false},
		{"from the host to an unknown one", ruleset.Output, tcpPacket("", host, "br0", "10.0.0.77", 0), false},
		{"from the host to a link-local one", ruleset.Output, tcpPacket("", "fd00::254", "br0", "fe80::1", 0), false},
		{"from the host to one that is down", ruleset.Output, tcpPacket("", host, "br0", "10.0.0.3", 0), false},
		{"to a service of an unknown one", ruleset.Postrouting, translatedPacket("br0", "10.0.0.77"), false},
		{"other interfaces", ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "eth1", "10.0.0.1", 0), true},
	} {
		for name, cfg := range map[string]render.Config{
			"plain":   {},
			"counted": {Counters: true, Reject: true, VerdictLog: render.VerdictLog{Enabled: true}},
			"unknown": {UnknownWorkloads: policy.HostAccept},
			"reverse": {ReversePath: true},
			"names":   {InterfacePrefix: "x-"},
		} {
			cfg.Classes, cfg.Host.EndpointToHostAction = classes, policy.HostAccept
			table := bridgedTable(t, cfg)
			for _, state := range []uint32{ruleset.CtNew, ruleset.CtEstablished} {
				if cfg.ReversePath && state == ruleset.CtNew && c.packet.IIF == "br0" {
					continue // the lookup returns no result for such a packet
				}
				c.packet.CT = state
				got, _ := judgePacket(t, table, c.hook, c.packet)
				require.Equal(t, c.want, got, "%s, %s: %v %+v", name, c.name, c.hook, c.packet)
			}
		}
	}
}

// S171: policy decides about the packets of a bridge in both directions. way2 has no policy that
// allows them.
func TestBridgedEndpointsHavePolicy(t *testing.T) {
	nfttest.EachForm(t, testBridgedEndpointsHavePolicy)
}

func testBridgedEndpointsHavePolicy(t *testing.T, classes render.ClassesConfig) {
	table := bridgedTable(t, render.Config{Classes: classes})
	for _, c := range []struct{ iif, src, oif, dst string }{
		{"br0", "10.0.0.2", "eth0", "8.8.8.8"},
		{"eth0", "8.8.8.8", "br0", "10.0.0.2"},
		{"br0", "10.0.0.2", "br0", "10.0.0.1"},
		{"br0", "10.0.0.1", "br0", "10.0.0.2"},
		{"br0", "fd00::1", "br0", "fd00::2"},
		{"way5", "10.0.0.5", "br0", "10.0.0.2"},
	} {
		got, _ := judgePacket(t, table, ruleset.Forward, tcpPacket(c.iif, c.src, c.oif, c.dst, ruleset.CtNew))
		require.False(t, got, "%+v", c)
		known, _ := judgePacket(t, table, ruleset.Forward, tcpPacket(c.iif, c.src, c.oif, c.dst, ruleset.CtEstablished))
		require.True(t, known, "%+v", c)
	}
}

// S171: neighbour discovery passes between two ports of one bridge, to the host and from it.
func TestNeighbourDiscoveryOnBridges(t *testing.T) {
	unicast := ndPacket("", "fe80::ee", "br0", 136)
	unicast.Dst = netip.MustParseAddr("fe80::1")
	for _, action := range []policy.HostAction{policy.HostAccept, policy.HostReturn, policy.HostDrop} {
		cfg := render.Config{Host: policy.HostConfig{HostToEndpointAction: action}}
		table := bridgedTable(t, cfg)
		cfg.DenyNeighbourDiscovery = true
		denied := bridgedTable(t, cfg)
		for _, c := range []struct {
			hook   ruleset.HookPoint
			packet simPacket
			want   bool
		}{
			{ruleset.Forward, ndPacket("br0", "fe80::1", "br0", 135), true},
			{ruleset.Forward, ndPacket("br0", "fe80::1", "br0", 136), true},
			{ruleset.Forward, ndPacket("br0", "fd00::1", "br0", 135), true},
			{ruleset.Forward, ndPacket("br0", "::", "br0", 135), true},
			{ruleset.Forward, ndPacket("br0", "fe80::1", "br0", 133), false},
			{ruleset.Forward, ndPacket("br0", "fe80::1", "br0", 134), false},
			{ruleset.Forward, ndPacket("br0", "fe80::1", "br0", 137), false},
			{ruleset.Forward, ndPacket("br0", "fd00::5", "br0", 135), false},
			{ruleset.Forward, ndPacket("br0", "fd00::3", "br0", 136), false}, // down
			{ruleset.Forward, ndPacket("br0", "2001:db8::1", "br0", 136), false},
			{ruleset.Forward, ofHost(ndPacket("br0", "fe80::ee", "br0", 136)), false},
			{ruleset.Forward, ndPacket("br0", "fe80::1", "br1", 135), false},
			{ruleset.Forward, ndPacket("br0", "fe80::1", "way5", 135), false},
			{ruleset.Forward, ndPacket("br0", "fe80::1", "eth0", 135), false},
			{ruleset.Forward, ndPacket("eth0", "fe80::1", "br0", 135), false},
			{ruleset.Input, ndPacket("br0", "fe80::1", "", 133), true},
			{ruleset.Input, ndPacket("br0", "fe80::1", "", 135), true},
			{ruleset.Input, ndPacket("br0", "::", "", 135), true},
			{ruleset.Input, ndPacket("br0", "fd00::1", "", 136), true},
			{ruleset.Input, ndPacket("br0", "fe80::1", "", 134), false},
			{ruleset.Input, ndPacket("br0", "fd00::5", "", 135), false},
			{ruleset.Input, ofHost(ndPacket("br0", "fe80::ee", "", 135)), false},
			{ruleset.Output, unicast, true},
			{ruleset.Output, ndPacket("", "fe80::ee", "br0", 135), true},
			{ruleset.Output, ndPacket("", "fe80::ee", "br0", 134), true},
		} {
			got, _ := judgePacket(t, table, c.hook, c.packet)
			require.Equal(t, c.want, got, "%s: %v %+v", action, c.hook, c.packet)
			if c.hook == ruleset.Output {
				continue // packets of the host: see TestHostSendsToBridges
			}
			got, _ = judgePacket(t, denied, c.hook, c.packet)
			require.False(t, got, "%s: %v %+v", action, c.hook, c.packet)
		}
	}
}

// S171: HostToEndpointAction decides about packets from the host to a bridge if an endpoint has the
// address. Broadcasts and multicasts go to no single endpoint, so they pass only with Accept.
func TestHostSendsToBridges(t *testing.T) { nfttest.EachForm(t, testHostSendsToBridges) }

func testHostSendsToBridges(t *testing.T, classes render.ClassesConfig) {
	answer := ndPacket("", "fe80::ee", "br0", 0)
	answer.Proto, answer.Transport, answer.Dst = 17, nfttest.Ports(547, 546), netip.MustParseAddr("fe80::1")
	answer.CT = ruleset.CtNew
	other := answer
	other.Transport = nfttest.Ports(547, 53)
	global := answer
	global.Dst = netip.MustParseAddr("fd00::77")
	hosts := nfttest.InSync()
	hosts.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "all"}] = &dataplane.HostEndpoint{
		Interface: policy.AllInterfaces,
	}
	to := func(dst string) simPacket {
		src := "10.0.0.254"
		if netip.MustParseAddr(dst).Is6() {
			src = "fd00::254"
		}
		return tcpPacket("", src, "br0", dst, ruleset.CtNew)
	}
	for _, c := range []struct {
		name                  string
		packet                simPacket
		accept, policed, drop bool
	}{
		{"endpoint", to("10.0.0.1"), true, true, false},
		{"endpoint, IPv6", to("fd00::1"), true, true, false},
		{"endpoint that policy denies", to("10.0.0.2"), true, false, false},
		{"down", to("10.0.0.3"), false, false, false},
		{"unknown", to("10.0.0.77"), false, false, false},
		{"broadcast", to("10.0.0.255"), true, false, false},
		{"multicast", to("ff02::1"), true, false, false},
		{"DHCPv6 to a link-local address", answer, true, false, false},
		{"UDP to a link-local address", other, false, false, false},
		{"DHCPv6 to an unknown address", global, false, false, false},
	} {
		for action, want := range map[policy.HostAction]bool{
			policy.HostAccept: c.accept, policy.HostReturn: c.policed, policy.HostDrop: c.drop,
		} {
			cfg := render.Config{
				Classes: classes, AllowDHCP: true, Bridges: nfttest.Bridges(),
				Host: policy.HostConfig{HostToEndpointAction: action},
			}
			s, of := bridgedState()
			plain := scenario{Config: cfg, Batches: []dataplane.Batch{nfttest.Transition(s)}, Ports: of}
			s.HostEndpoints = hosts.HostEndpoints // for all interfaces except those of workloads
			hosted := scenario{Config: cfg, Batches: []dataplane.Batch{nfttest.Transition(s)}, Ports: of}
			for _, sc := range []scenario{plain, hosted} {
				table, errs := sc.rendered(t)
				require.Empty(t, errs)
				for _, hook := range []ruleset.HookPoint{ruleset.Output, ruleset.Postrouting} {
					p := c.packet
					if hook == ruleset.Postrouting { // after translation
						p.OrigDst, p.OrigPort, p.Local = netip.MustParseAddr("10.96.0.1"), 80, []netip.Addr{p.Src}
					}
					got, _ := judgePacket(t, table, hook, p)
					require.Equal(t, want, got, "%s, %s, %v", c.name, action, hook)
				}
			}
		}
	}
}

// S171: DHCP passes from a bridge to the host, from sources that no other endpoint has.
func TestDHCPOnBridges(t *testing.T) {
	table, plain := bridgedTable(t, render.Config{AllowDHCP: true}), bridgedTable(t, render.Config{})
	for _, c := range []struct {
		packet simPacket
		want   bool
	}{
		{dhcpPacket("br0", "0.0.0.0", 68, 67), true},
		{dhcpPacket("br0", "10.0.0.2", 68, 67), true},
		{dhcpPacket("br0", "fe80::2", 546, 547), true},
		{dhcpPacket("br0", "fd00::2", 546, 547), true},
		{dhcpPacket("br0", "10.0.0.3", 68, 67), false},
		{dhcpPacket("br0", "10.0.0.5", 68, 67), false},
		{dhcpPacket("br0", "10.0.0.77", 68, 67), false},
		{ofHost(dhcpPacket("br0", "fe80::ee", 546, 547)), false},
		{dhcpPacket("br0", "0.0.0.0", 67, 68), false},
	} {
		got, _ := judgePacket(t, table, ruleset.Input, c.packet)
		require.Equal(t, c.want, got, "%+v", c.packet)
		got, _ = judgePacket(t, plain, ruleset.Input, c.packet)
		require.False(t, got, "%+v", c.packet)
	}
}

// S169, S171: a bridged endpoint injects no ICMP errors into connections of others at its bridge.
func TestRelatedOnBridges(t *testing.T) {
	table := bridgedTable(t, render.Config{})
	for _, c := range []struct {
		iif, src, oif, dst, connSrc, connDst string
		want                                 bool
	}{
		{"br0", "10.0.0.2", "eth0", "8.8.8.8", "8.8.8.8", "10.0.0.2", true},
		{"br0", "10.0.0.2", "eth0", "8.8.8.8", "8.8.8.8", "10.0.0.1", false},
		{"br0", "fd00::2", "eth0", "2001:db8::1", "2001:db8::1", "fd00::2", true},
		{"br0", "fd00::2", "eth0", "2001:db8::1", "2001:db8::1", "fd00::1", false},
		{"eth0", "8.8.8.8", "br0", "10.0.0.2", "10.0.0.2", "9.9.9.9", true},
		{"eth0", "8.8.8.8", "br0", "10.0.0.2", "10.0.0.1", "9.9.9.9", false},
		{"br0", "10.0.0.2", "br0", "10.0.0.1", "10.0.0.1", "10.0.0.2", true},
		{"br0", "10.0.0.2", "br0", "10.0.0.1", "10.0.0.1", "10.0.0.4", false},
		{"br0", "10.0.0.2", "way5", "10.0.0.5", "10.0.0.5", "10.0.0.2", true},
		{"br0", "10.0.0.2", "way5", "10.0.0.5", "10.0.0.5", "10.0.0.1", false},
	} {
		p := tcpPacket(c.iif, c.src, c.oif, c.dst, ruleset.CtRelated)
		p.Proto, p.Transport = uint8(policy.ProtocolICMP), nfttest.ICMPHeader(3, 1)
		if p.Src.Is6() {
			p.Proto, p.Transport = uint8(policy.ProtocolICMPv6), nfttest.ICMPHeader(1, 1)
		}
		p.connSrc, p.connDst = netip.MustParseAddr(c.connSrc), netip.MustParseAddr(c.connDst)
		got, _ := judgePacket(t, table, ruleset.Forward, p)
		require.Equal(t, c.want, got, "%+v", c)
	}
}

// S171: two endpoints of one bridge with the same address are both at fault, even if one is down.
// Each is up again when the other leaves the bridge.
func TestEndpointsOfOneBridgeShareAnAddress(t *testing.T) {
	s, of := bridgedState()
	shared := s.Clone()
	two := *shared.Endpoints[nfttest.EndpointKey("way2")]
	two.Addresses = nfttest.Addresses("10.0.0.3", "10.0.0.2")
	shared.Endpoints[nfttest.EndpointKey("way2")] = &two // that of way3, which is down
	r, err := render.New(render.Config{Bridges: nfttest.Bridges()})
	require.NoError(t, err)
	r.SetInterfaces(ports(of))
	r.Update(nfttest.Transition(s))
	clean, errs := r.Table()
	require.Empty(t, errs)
	text := clean.String()
	both := []string{
		"nft: render WorkloadEndpoint/shop/way2: address 10.0.0.3 also belongs to WorkloadEndpoint/shop/way3, " +
			"at the same bridge br0",
		"nft: render WorkloadEndpoint/shop/way3: address 10.0.0.3 also belongs to WorkloadEndpoint/shop/way2, " +
			"at the same bridge br0",
	}
	r.Update(dptest.Transition(s, shared))
	table, errs := r.Table()
	require.Equal(t, both, messages(errs))
	known := tcpPacket("br0", "10.0.0.2", "eth0", "8.8.8.8", ruleset.CtEstablished)
	got, _ := judgePacket(t, table, ruleset.Forward, known)
	require.False(t, got)
	r.SetMaster("way3", render.Master{Name: "br1", Kind: "bridge"})
	require.Empty(t, r.Errors())
	r.SetMaster("way3", render.Master{Name: "br0", Kind: "bridge"})
	require.Equal(t, both, messages(r.Errors()))
	r.SetMaster("way2", render.Master{})
	require.Empty(t, r.Errors(), "a routed endpoint is identified by its interface")
	r.SetMaster("way2", render.Master{Name: "br0", Kind: "bridge"})
	r.Update(dptest.Transition(shared, s))
	again, errs := r.Table()
	require.Empty(t, errs)
	require.Equal(t, text, again.String())
}

// S171: an address moves between two ports of one bridge in one flush. Its elements are changed in
// place.
func TestAddressMovesBetweenPorts(t *testing.T) {
	s, of := bridgedState()
	for i := range 20 { // maps have no order
		r, err := render.New(render.Config{Bridges: nfttest.Bridges()})
		require.NoError(t, err)
		r.SetInterfaces(ports(of))
		r.Update(nfttest.Transition(s))
		state := ruleset.NewState(ruleset.FamilyINet, "wayleave")
		play := func() {
			change, err := state.Prepare(r.Flush())
			require.NoError(t, err)
			state.Commit(change)
			table, errs := r.Table()
			require.Empty(t, errs)
			require.Equal(t, table.String(), state.Table().String())
		}
		play()
		next := s.Clone()
		for name, other := range map[string]string{"way1": "way4", "way4": "way1"} {
			e := *next.Endpoints[nfttest.EndpointKey(name)]
			e.Addresses = s.Endpoints[nfttest.EndpointKey(other)].Addresses
			next.Endpoints[nfttest.EndpointKey(name)] = &e
		}
		r.Update(dptest.Transition(s, next))
		play()
		require.Contains(t, state.Table().String(), `"br0" . 10.0.0.4 : jump from/shop/way1`, "%d", i)
	}
}

// S170, S171: an endpoint at a port is not at fault only if its bridge is configured and has no
// master itself.
func TestEndpointsAtOtherMastersAreAtFault(t *testing.T) {
	s, _ := bridgedState()
	for name, c := range map[string]struct {
		known map[string]render.Interface
		want  string
	}{
		"another bridge": {ports(map[string]string{"way1": "br7"}), "interface way1 is a port of bridge br7"},
		"another kind": {
			map[string]render.Interface{"way1": {Master: render.Master{Name: "br0", Kind: "vrf"}}},
			"interface way1 is a port of vrf br0",
		},
		"an unknown kind": {
			map[string]render.Interface{"way1": {Master: render.Master{Name: "br0"}}},
			"interface way1 is a port of br0",
		},
		"a bridge in a VRF": {
			map[string]render.Interface{
				"way1": {Master: render.Master{Name: "br0", Kind: "bridge"}},
				"br0":  {Master: render.Master{Name: "red", Kind: "vrf"}},
			},
			"interface br0 is a port of vrf red",
		},
		"a bridge that cannot be looked up": {
			map[string]render.Interface{
				"way1": {Master: render.Master{Name: "br0", Kind: "bridge"}}, "br0": {Master: render.UnknownMaster()},
			},
			"interface br0 cannot be looked up",
		},
	} {
		r, err := render.New(render.Config{Bridges: nfttest.Bridges()})
		require.NoError(t, err)
		r.SetInterfaces(c.known)
		r.Update(nfttest.Transition(s))
		table, errs := r.Table()
		require.Len(t, errs, 1, name)
		require.ErrorContains(t, errs[0], c.want, name)
		for _, iif := range []string{"br0", "br7", "red", "way1"} {
			p := tcpPacket(iif, "10.0.0.1", "eth0", "8.8.8.8", ruleset.CtNew)
			got, _ := judgePacket(t, table, ruleset.Forward, p)
			require.False(t, got, "%s: %s", name, iif)
		}
		r.SetInterfaces(ports(map[string]string{"way1": "br0"}))
		require.Empty(t, r.Errors(), name)
	}
}

// S171: an endpoint with the name of a bridge is at fault, and does not affect the endpoints of its
// ports.
func TestEndpointWithNameOfBridgeIsAtFault(t *testing.T) {
	s, of := bridgedState()
	s.Endpoints[nfttest.EndpointKey("router")] = &dataplane.Endpoint{
		Interface: "br0", Addresses: nfttest.Addresses("10.0.0.9"), Profiles: []string{"all"},
	}
	r, err := render.New(render.Config{Bridges: nfttest.Bridges()})
	require.NoError(t, err)
	r.SetInterfaces(ports(of))
	r.Update(nfttest.Transition(s))
	table, errs := r.Table()
	require.Equal(t, []string{
		"nft: render WorkloadEndpoint/shop/router: interface br0 is a bridge for the endpoints of its ports, " +
			"so it cannot have one itself",
	}, messages(errs))
	for src, want := range map[string]bool{"10.0.0.1": true, "10.0.0.9": false} {
		got, _ := judgePacket(t, table, ruleset.Forward, tcpPacket("br0", src, "eth0", "8.8.8.8", ruleset.CtNew))
		require.Equal(t, want, got)
	}
}

// S170, S171: a port of another master has the address of a bridged endpoint. The bridged endpoint
// is not affected.
func TestBlockedAddressOfABridgedEndpoint(t *testing.T) {
	s, of := bridgedState()
	of["way5"] = "br7"
	five := *s.Endpoints[nfttest.EndpointKey("way5")]
	five.Addresses = nfttest.Addresses("10.0.0.1")
	s.Endpoints[nfttest.EndpointKey("way5")] = &five
	r, err := render.New(render.Config{Bridges: nfttest.Bridges()})
	require.NoError(t, err)
	r.SetInterfaces(ports(of))
	r.Update(nfttest.Transition(s))
	table, errs := r.Table()
	require.Len(t, errs, 1)
	for iif, want := range map[string]bool{"br0": true, "br7": false, "way5": false, "eth1": false} {
		got, _ := judgePacket(t, table, ruleset.Forward, tcpPacket(iif, "10.0.0.1", "eth0", "8.8.8.8", ruleset.CtNew))
		require.Equal(t, want, got, iif)
	}
}

// S171: host endpoints do not govern bridges for workloads, not even by their names or addresses.
func TestHostEndpointsAndBridges(t *testing.T) { nfttest.EachForm(t, testHostEndpointsAndBridges) }

func testHostEndpointsAndBridges(t *testing.T, classes render.ClassesConfig) {
	hostEndpointsAndBridges(t, classes, policy.HostDrop, []string{"all"}) // allows everything
	hostEndpointsAndBridges(t, classes, policy.HostAccept, nil)           // denies everything
}

// hostEndpointsAndBridges tests that EndpointToHostAction decides, and not a host endpoint with the
// profiles.
func hostEndpointsAndBridges(
	t *testing.T, classes render.ClassesConfig, action policy.HostAction, profiles []string,
) {
	t.Helper()
	for name, h := range map[string]*dataplane.HostEndpoint{
		"name":    {Interface: "br0"},
		"address": {Addresses: nfttest.Addresses("10.0.0.254")},
		"all":     {Interface: policy.AllInterfaces},
	} {
		s, of := bridgedState()
		h.Profiles = profiles
		s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "h"}] = h
		known := ports(of)
		known["br0"] = render.Interface{Addresses: nfttest.Addresses("10.0.0.254")}
		r, err := render.New(render.Config{
			Classes: classes, Bridges: nfttest.Bridges(), Host: policy.HostConfig{EndpointToHostAction: action},
		})
		require.NoError(t, err)
		r.SetInterfaces(known)
		r.Update(nfttest.Transition(s))
		table, errs := r.Table()
		require.Empty(t, errs)
		for _, src := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.77"} {
			got, _ := judgePacket(t, table, ruleset.Input, tcpPacket("br0", src, "", "10.0.0.254", ruleset.CtNew))
			allows := action == policy.HostAccept && src == "10.0.0.1"
			require.Equal(t, allows, got, "%s: EndpointToHostAction is %s: %s", name, action, src)
			got, _ = judgePacket(t, table, ruleset.Output, tcpPacket("", "10.0.0.254", "br0", src, ruleset.CtNew))
			require.Equal(t, src != "10.0.0.77", got, "%s: HostToEndpointAction is Accept: %s", name, src)
		}
	}
}

// S171: without bridges in the configuration, the table has no objects for bridges.
func TestNoBridgesInConfigNoObjects(t *testing.T) {
	s, _ := bridgedState()
	table, errs := nfttest.Rendered(t, render.Config{}, nfttest.Transition(s))
	require.Empty(t, errs)
	require.NotContains(t, fmt.Sprint(table), "bridge")
}
