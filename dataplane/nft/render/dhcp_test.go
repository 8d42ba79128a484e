// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

func dhcpPacket(iif, src string, sport, dport uint16) simPacket {
	p := ndPacket(iif, src, "", 0)
	if p.Src.Is4() {
		p.Dst = netip.MustParseAddr("255.255.255.255")
	}
	p.Proto, p.Transport, p.CT = 17, nfttest.Ports(sport, dport), ruleset.CtNew
	return p
}

// ofHost makes the source of a packet an address of the host.
func ofHost(p simPacket) simPacket {
	p.Local = []netip.Addr{p.Src}
	return p
}

// With AllowDHCP, packets of workloads to a DHCP server on the host pass, from the workload's own
// sources only (S175).
func TestDHCP(t *testing.T) { nfttest.EachForm(t, testDHCP) }

func testDHCP(t *testing.T, classes render.ClassesConfig) {
	plain, dhcp := render.Config{}, render.Config{AllowDHCP: true}
	for _, c := range []struct {
		name   string
		cfg    render.Config
		packet simPacket
		want   bool
	}{
		{"DHCP", plain, dhcpPacket("way2", "0.0.0.0", 68, 67), false},
		{"DHCP allowed", dhcp, dhcpPacket("way2", "0.0.0.0", 68, 67), true},
		{"DHCPv6 allowed", dhcp, dhcpPacket("way2", "fe80::2", 546, 547), true},
		{"S175 DHCP from its own address", dhcp, dhcpPacket("way2", "10.0.0.2", 68, 67), true},
		{"S175 DHCP from that of another", dhcp, dhcpPacket("way2", "10.0.0.1", 68, 67), false},
		{"S175 DHCP from anywhere", dhcp, dhcpPacket("way2", "203.0.113.9", 68, 67), false},
		{"S175 DHCP from the host's address", dhcp, dhcpPacket("way2", "10.0.0.254", 68, 67), false},
		{"S175 DHCPv6 from its own address", dhcp, dhcpPacket("way2", "fd00::2", 546, 547), true},
		{"S175 DHCPv6 from that of another", dhcp, dhcpPacket("way2", "fd00::1", 546, 547), false},
		{
			"S175 DHCPv6 from the host's link-local address", dhcp, ofHost(dhcpPacket("way2", "fe80::ee", 546, 547)),
			false,
		},
		{
			"S175 solicitation from the host's link-local address", plain,
			ofHost(ndPacket("way2", "fe80::ee", "", 135)), false,
		},
		{
			"S175 only DHCP, without discovery",
			render.Config{AllowDHCP: true, DenyNeighbourDiscovery: true},
			dhcpPacket("way2", "10.0.0.2", 68, 67), true,
		},
		{"DHCPv6 allowed, false source", dhcp, dhcpPacket("way2", "fd00::9", 546, 547), false},
		{"DHCP allowed, another port", dhcp, dhcpPacket("way2", "0.0.0.0", 68, 68), false},
		{"S35 DHCP allowed", dhcp, dhcpPacket("way3", "0.0.0.0", 68, 67), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Classes = classes
			table, errs := nfttest.Rendered(t, c.cfg, nfttest.Transition(hostState()))
			require.Empty(t, errs)
			got, _ := judgePacket(t, table, ruleset.Input, c.packet)
			require.Equal(t, c.want, got, "%s", table)
		})
	}
}
