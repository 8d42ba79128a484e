// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
)

// bridged returns a simulator of a table of family bridge that drops frames to which the match
// applies.
func bridged(t *testing.T, m ruleset.Match) *simulate.Simulator {
	x := table(base("b", ruleset.Prerouting, -300, rule(drop, m)))
	x.Family = ruleset.FamilyBridge
	s, err := simulate.New(simulate.Config{Table: x})
	require.NoError(t, err)
	return s
}

// TestFrames: rules read the fields of frames as the kernel does. The fields are in the Ethernet
// header with the tag that the kernel has removed, in ARP, and in transport headers behind
// extension headers.
func TestFrames(t *testing.T) {
	mac := nfttest.MAC{2, 0, 0, 0, 0, 1}
	v4, peer4 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	v6, peer6 := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	udp := nfttest.UDP(68, 67, nil)
	advert := nfttest.ICMPv6(v6, peer6, nfttest.TypeAdvertisement, peer6.AsSlice())
	ether := func(typ uint16, payload []byte, tags ...[2]uint16) []byte {
		return nfttest.Ether(nfttest.Broadcast(), mac, tags, typ, payload)
	}
	vlan := func(id uint16) [2]uint16 { return [2]uint16{nfttest.EtherVLAN, id} }
	frames := map[string][]byte{
		"arp":      ether(nfttest.EtherARP, nfttest.ARP(false, mac, v4, peer4)),
		"ipv4":     ether(nfttest.EtherIPv4, nfttest.IP(v4, peer4, udpProtocol, udp)),
		"tagged":   ether(nfttest.EtherIPv4, nfttest.IP(v4, peer4, udpProtocol, udp), vlan(7)),
		"twice":    ether(nfttest.EtherIPv4, nfttest.IP(v4, peer4, udpProtocol, udp), vlan(0), vlan(0)),
		"ipv6":     ether(nfttest.EtherIPv6, nfttest.IP(v6, peer6, 58, advert)),
		"extended": ether(nfttest.EtherIPv6, nfttest.IP(v6, peer6, 60, nfttest.Extended(58, advert))),
		"first":    ether(nfttest.EtherIPv6, nfttest.IP(v6, peer6, 44, nfttest.Fragment(58, 0, true, advert))),
		"later":    ether(nfttest.EtherIPv6, nfttest.IP(v6, peer6, 44, nfttest.Fragment(58, 3, false, advert))),
		"whole":    ether(nfttest.EtherIPv6, nfttest.IP(v6, peer6, 44, nfttest.Fragment(58, 0, false, advert))),
		"short":    ether(nfttest.EtherIPv6, nfttest.IP(v6, peer6, 58, advert)[:50]),
		"chain":    ether(nfttest.EtherIPv6, nfttest.IP(v6, peer6, 44, nfttest.Fragment(60, 3, false, advert))),
	}
	for name, test := range map[string]struct {
		match ruleset.Match
		in    []string
	}{
		"source MAC": {
			is(ruleset.EtherSaddr, mac[:]),
			[]string{"arp", "ipv4", "tagged", "twice", "ipv6", "extended", "first", "later", "whole", "short", "chain"},
		},
		"EtherType of IPv4":  {is(ruleset.EtherType, ruleset.EtherTypeOf(0x0800)), []string{"ipv4"}},
		"EtherType of a tag": {is(ruleset.EtherType, ruleset.EtherTypeOf(0x8100)), []string{"tagged", "twice"}},
		"tag":                {is(ruleset.VLANTag, ruleset.Port(7)), []string{"tagged"}},
		"protocol of IPv4":   {is(ruleset.Protocol, ruleset.EtherTypeOf(0x0800)), []string{"ipv4", "tagged"}},
		"protocol of a tag":  {is(ruleset.Protocol, ruleset.EtherTypeOf(0x8100)), []string{"twice"}},
		"sender's MAC":       {is(ruleset.ARPSaddrEther, mac[:]), []string{"arp"}},
		"sender of ARP":      {is(ruleset.ARPSaddrIP, ruleset.Addr(v4)), []string{"arp"}},
		"target of ARP":      {is(ruleset.ARPDaddrIP, ruleset.Addr(peer4)), []string{"arp"}},
		"source of IPv4":     {is(ruleset.IPSaddr, ruleset.Addr(v4)), []string{"ipv4", "tagged"}},
		"port":               {is(ruleset.Dport, ruleset.Port(67)), []string{"ipv4", "tagged"}},
		"type of ICMPv6": {
			is(ruleset.ICMPv6Type, ruleset.Byte(136)), []string{"ipv6", "extended", "first", "whole"},
		},
		"type in a later fragment": {is(ruleset.ICMPv6Type, ruleset.Byte(0x60)), []string{"later"}},
		"target": {
			is(ruleset.NDTarget, ruleset.Addr(peer6)), []string{"ipv6", "extended", "first", "whole"},
		},
		"fragment header": {
			is(ruleset.FragmentHeader, ruleset.Byte(1)), []string{"first", "later", "whole", "chain"},
		},
		"transport protocol": {
			is(ruleset.L4Proto, ruleset.Byte(58)), []string{"ipv6", "extended", "first", "later", "whole"},
		},
	} {
		s := bridged(t, test.match)
		var dropped []string
		for _, frame := range []string{
			"arp", "ipv4", "tagged", "twice", "ipv6", "extended", "first", "later", "whole", "short", "chain",
		} {
			r, err := s.Run(ruleset.Prerouting, simulate.Packet{IIFName: "eth0", Frame: frames[frame]}, simulate.Conn{})
			require.NoError(t, err)
			if r.Verdict == ruleset.Drop {
				dropped = append(dropped, frame)
			}
		}
		require.Equal(t, test.in, dropped, name)
	}
}

const udpProtocol = 17

// TestFramesNoBridgeReceives: only the bridge family accepts frames, and a frame must have a
// header.
func TestFramesNoBridgeReceives(t *testing.T) {
	s := bridged(t, is(ruleset.EtherType, ruleset.EtherTypeOf(0x0800)))
	for _, b := range [][]byte{{}, make([]byte, 13), append(make([]byte, 12), 0x81, 0, 0, 0, 8)} {
		_, err := s.Run(ruleset.Prerouting, simulate.Packet{Frame: b}, simulate.Conn{})
		require.ErrorIs(t, err, simulate.ErrFrame)
	}
	inet, err := simulate.New(simulate.Config{Table: table(base("b", ruleset.Prerouting, -300, rule(drop)))})
	require.NoError(t, err)
	_, err = inet.Run(ruleset.Prerouting, simulate.Packet{Frame: make([]byte, 60)}, simulate.Conn{})
	require.ErrorIs(t, err, simulate.ErrFrame)
}
