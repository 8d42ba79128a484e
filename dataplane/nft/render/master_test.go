// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// S170: routed packets to and from an endpoint whose interface has a master drop, in every hook and
// state of connection. Packets of other endpoints pass.
func TestPortsOfMasters(t *testing.T) { nfttest.EachForm(t, testPortsOfMasters) }

func testPortsOfMasters(t *testing.T, classes render.ClassesConfig) {
	s := hostState()
	// way1 also has the address of way4.
	s.Endpoints[nfttest.EndpointKey("way1")].Addresses = append(
		s.Endpoints[nfttest.EndpointKey("way1")].Addresses, nfttest.Addresses("10.0.0.4")...,
	)
	s.Endpoints[nfttest.EndpointKey("router")] = &dataplane.Endpoint{
		Interface: "br0", Addresses: nfttest.Addresses("10.0.0.9"), AllowedSources: nfttest.Nets(
			"0.0.0.0/0",
		), Profiles: []string{"all"},
	}
	accept := policy.HostConfig{EndpointToHostAction: policy.HostAccept}
	r, err := render.New(render.Config{Classes: classes, Host: accept})
	require.NoError(t, err)
	r.SetInterfaces(map[string]render.Interface{
		"way1": {Master: render.Master{Name: "br0", Kind: "bridge"}},
		"way3": {Master: render.Master{Name: "ovs-system"}}, // down
		"eth1": {Master: render.Master{Name: "bond0", Kind: "bond"}},
	})
	r.Update(nfttest.Transition(s))
	table, errs := r.Table()
	require.Equal(t, []string{
		"nft: render WorkloadEndpoint/shop/way1: interface way1 is a port of bridge br0: the hooks see " +
			"its packets on br0, so policy cannot match them; remove it from the bridge and route it",
		"nft: render WorkloadEndpoint/shop/way3: interface way3 is a port of ovs-system: the hooks see " +
			"its packets on ovs-system, so policy cannot match them; remove it from ovs-system and route it",
	}, messages(errs))
	const host = "10.0.0.254"
	for _, c := range []struct {
		hook   ruleset.HookPoint
		packet simPacket
		want   bool
	}{
		{ruleset.Forward, tcpPacket("br0", "10.0.0.1", "eth0", "8.8.8.8", 0), false},
		{ruleset.Forward, tcpPacket("br0", "fd00::1", "eth0", "2001:db8::1", 0), false},
		{ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "br0", "10.0.0.1", 0), false},
		{ruleset.Forward, tcpPacket("eth0", "2001:db8::1", "br0", "fd00::1", 0), false},
		{ruleset.Forward, tcpPacket("br0", "10.0.0.1", "way4", "10.0.0.4", 0), false},
		{ruleset.Forward, tcpPacket("way4", "10.0.0.4", "br0", "10.0.0.1", 0), false},
		{ruleset.Forward, tcpPacket("way1", "10.0.0.1", "eth0", "8.8.8.8", 0), false},
		{ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "way1", "10.0.0.1", 0), false},
		{ruleset.Forward, tcpPacket("x", "10.0.0.3", "eth0", "8.8.8.8", 0), false},
		{ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "eth1", "10.0.0.3", 0), false},
		{ruleset.Forward, tcpPacket("br0", "10.0.0.4", "eth0", "8.8.8.8", 0), false},
		{ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "br0", "10.0.0.4", 0), false},
		{ruleset.Forward, tcpPacket("way4", "10.0.0.4", "eth0", "8.8.8.8", 0), true},
		{ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "way4", "10.0.0.4", 0), true},
		// the master has an endpoint of its own
		{ruleset.Forward, tcpPacket("br0", "10.0.0.9", "eth0", "8.8.8.8", 0), true},
		{ruleset.Forward, tcpPacket("eth0", "8.8.8.8", "br0", "10.0.0.9", 0), true},
		{ruleset.Forward, tcpPacket("br0", "10.0.0.77", "eth1", "8.8.8.8", 0), true},
		{ruleset.Forward, tcpPacket("bond0", "8.8.8.8", "br0", "10.0.0.77", 0), true},
		{ruleset.Input, tcpPacket("br0", "10.0.0.1", "", host, 0), false},
		{ruleset.Input, tcpPacket("br0", "fd00::1", "", "fd00::254", 0), false},
		{ruleset.Input, tcpPacket("br0", "10.0.0.4", "", host, 0), false},
		{ruleset.Input, tcpPacket("way4", "10.0.0.4", "", host, 0), true},
		{ruleset.Input, tcpPacket("br0", "10.0.0.77", "", host, 0), true},
		{ruleset.Output, tcpPacket("", host, "br0", "10.0.0.1", 0), false},
		{ruleset.Output, tcpPacket("", "fd00::254", "br0", "fd00::1", 0), false},
		{ruleset.Output, tcpPacket("", host, "way4", "10.0.0.4", 0), true},
		{ruleset.Output, tcpPacket("", host, "br0", "10.0.0.77", 0), true},
		{ruleset.Output, translatedPacket("eth0", "10.0.0.1"), true}, // the endpoint is routed again
		{ruleset.Postrouting, translatedPacket("br0", "10.0.0.1"), false},
		{ruleset.Postrouting, translatedPacket("br0", "10.0.0.4"), false},
		{ruleset.Postrouting, translatedPacket("way4", "10.0.0.4"), true},
	} {
		for _, state := range []uint32{ruleset.CtNew, ruleset.CtEstablished, ruleset.CtRelated} {
			c.packet.CT = state
			got, _ := judgePacket(t, table, c.hook, c.packet)
			require.Equal(t, c.want, got, "%v %+v", c.hook, c.packet)
		}
	}
	r.SetInterfaces(nil)
	table, errs = r.Table()
	require.Empty(t, errs)
	without, _ := nfttest.Rendered(t, render.Config{Classes: classes, Host: accept}, nfttest.Transition(s))
	require.Equal(t, without.String(), table.String())
}
