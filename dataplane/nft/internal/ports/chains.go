// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// The names of the chains.
const (
	chainBase   = "prerouting"
	chainMAC    = "port-mac"
	chainPort   = "port"
	chainIPv4   = "port-ipv4"
	chainARP    = "port-arp"
	chainIPv6   = "port-ipv6"
	chainICMPv6 = "port-icmpv6"
	chainTarget = "port-target"
)

// The names of the sets.
const (
	// setPorts is a map from the port of an endpoint to the chain for its frames.
	setPorts = "ports"
	// setMACs, setAddresses4 and setAddresses6 have the addresses with which a port may send.
	setMACs, setAddresses4, setAddresses6 = "macs", "addresses4", "addresses6"
	// setOwned4 and setOwned6 have the addresses of endpoints, with which no other port may send.
	setOwned4, setOwned6 = "owned4", "owned6"
	// setHostLocal has the link-local addresses that the host has on bridges.
	setHostLocal = "host-local"
	// setLinkLocal has all link-local addresses.
	setLinkLocal = "link-local"
)

// AddressSets returns the names of the two sets of allowed addresses, for IPv4 and for IPv6. Each
// element is a pair: a port of a bridge, and an address from which this port may send.
func AddressSets() [2]string { return [2]string{setAddresses4, setAddresses6} }

// priority of the base chain. The chain is evaluated before br_netfilter (priority 0), which passes
// frames to the netfilter hooks of IPv4 and IPv6. It is also before all priorities that nft names
// for this family.
const priority = -300

// The EtherTypes, protocols and types of messages.
const (
	etherIPv4, etherARP, etherIPv6 = 0x0800, 0x0806, 0x86dd
	etherVLAN, etherProvider       = 0x8100, 0x88a8

	protocolUDP, protocolICMPv6 = 17, 58
	portClient, portServer      = 68, 67 // of DHCP

	typeReport, typeReport2 = 131, 143 // of multicast listeners, versions 1 and 2
	typeRouterSolicitation  = 133
	typeRouterAdvertisement = 134
	typeSolicitation        = 135
	typeAdvertisement       = 136
	typeRedirect            = 137

	vlanIdentifier = 0x0fff // the bits of a VLAN tag that are its identifier
)

// heads returns the sets and maps whose elements change.
func heads() []ruleset.Set {
	return []ruleset.Set{
		{Name: setAddresses4, Key: []ruleset.Type{ruleset.TypeIfname, ruleset.TypeIPv4}},
		{Name: setAddresses6, Key: []ruleset.Type{ruleset.TypeIfname, ruleset.TypeIPv6}},
		{Name: setHostLocal, Key: []ruleset.Type{ruleset.TypeIPv6}},
		{Name: setMACs, Key: []ruleset.Type{ruleset.TypeIfname, ruleset.TypeEtherAddr}},
		{Name: setOwned4, Key: []ruleset.Type{ruleset.TypeIPv4}},
		{Name: setOwned6, Key: []ruleset.Type{ruleset.TypeIPv6}},
		{Name: setPorts, Key: []ruleset.Type{ruleset.TypeIfname}, Verdicts: true},
	}
}

// linkLocal returns the set of link-local addresses. It is a set instead of a comparison, because
// nft 1.0.6 lists a comparison of bytes without a name as a number.
func linkLocal() *ruleset.Set {
	first, last := linkLocalRange()
	return &ruleset.Set{
		Name: setLinkLocal, Key: []ruleset.Type{ruleset.TypeIPv6}, Interval: true,
		Elements: []ruleset.Element{{Key: []ruleset.Value{first}, Last: last}},
	}
}

// linkLocalRange returns the first and the last link-local address: fe80::/10.
func linkLocalRange() (first, last ruleset.Value) {
	first = ruleset.Addr(netip.AddrFrom16([16]byte{0xfe, 0x80}))
	last = ruleset.Value{0xfe, 0xbf}
	for len(last) < len(first) {
		last = append(last, 0xff)
	}
	return first, last
}

// chains returns the chains of the table.
func chains(cfg *Config) []*ruleset.Chain {
	drop := build.Always(build.Drop())
	plain := func(name string, rules ...ruleset.Rule) *ruleset.Chain {
		return &ruleset.Chain{Name: name, Rules: rules}
	}
	return []*ruleset.Chain{
		base(cfg),
		plain(
			chainMAC,
			build.When(build.Drop(), notIn(setMACs, ruleset.IIFName, ruleset.EtherSaddr)),
			build.When(build.Drop(), ether(etherARP), notIn(setMACs, ruleset.IIFName, ruleset.ARPSaddrEther)),
			build.Always(build.Goto(chainPort)),
		),
		plain(
			chainPort,
			// This is the EtherType of the frame itself. Meta protocol would be the EtherType after
			// a VLAN tag.
			build.Always(ruleset.VMap{Fields: []ruleset.Field{ruleset.EtherType}, Elements: []ruleset.Element{
				toChain(etherIPv4, chainIPv4), toChain(etherARP, chainARP), toChain(etherIPv6, chainIPv6),
			}}),
			drop,
		),
		plain(
			chainIPv4,
			build.When(build.Accept(), ether(etherIPv4), build.InSet(setAddresses4, ruleset.IIFName, ruleset.IPSaddr)),
			build.When(
				build.Accept(), ether(etherIPv4), build.Equals(ruleset.IPSaddr, ruleset.Addr(netip.IPv4Unspecified())),
				build.Equals(ruleset.L4Proto, ruleset.Byte(protocolUDP)),
				build.Equals(ruleset.Sport, ruleset.Port(portClient)),
				build.Equals(ruleset.Dport, ruleset.Port(portServer)),
			),
			drop,
		),
		plain(
			chainARP,
			// If the lengths were different, the addresses would be at other offsets.
			build.When(build.Drop(), ether(etherARP), differs(ruleset.ARPHlen, 6)),
			build.When(build.Drop(), ether(etherARP), differs(ruleset.ARPPlen, 4)),
			build.When(
				build.Accept(), ether(etherARP), build.InSet(setAddresses4, ruleset.IIFName, ruleset.ARPSaddrIP),
			),
			build.When(
				build.Accept(), ether(etherARP),
				build.Equals(ruleset.ARPSaddrIP, ruleset.Addr(netip.IPv4Unspecified())),
				build.InSet(setAddresses4, ruleset.IIFName, ruleset.ARPDaddrIP),
			),
			drop,
		),
		plain(chainIPv6, ipv6()...),
		plain(chainICMPv6, icmpv6()...),
		plain(
			chainTarget,
			build.When(build.Accept(), build.InSet(setAddresses6, ruleset.IIFName, ruleset.NDTarget)),
			build.When(
				build.Accept(), build.InSet(setLinkLocal, ruleset.NDTarget), notIn(setHostLocal, ruleset.NDTarget),
			),
			drop,
		),
	}
}

// base returns the base chain. It leads frames from the port of an endpoint to the port's chain,
// and filters frames from all other ports.
func base(cfg *Config) *ruleset.Chain {
	c := &ruleset.Chain{Name: chainBase, Hook: &ruleset.Hook{
		Point: ruleset.Prerouting, Priority: priority, Policy: build.Accept(),
	}}
	c.Rules = append(c.Rules, build.Dispatch(setPorts, ruleset.IIFName))
	if !cfg.AcceptUnknown {
		c.Rules = append(c.Rules, build.When(
			build.Drop(), build.Equals(ruleset.IIFName, ruleset.IfnamePrefix(cfg.InterfacePrefix)),
		))
	}
	solicitation := build.Equals(ruleset.ICMPv6Type, ruleset.Byte(typeSolicitation))
	advertisement := build.Equals(ruleset.ICMPv6Type, ruleset.Byte(typeAdvertisement))
	target := build.InSet(setOwned6, ruleset.NDTarget)
	c.Rules = append(
		c.Rules,
		// A priority tag before another tag: Linux removes both, and the other rules would not see
		// the packet.
		build.When(
			build.Drop(),
			build.OneOf(ruleset.Protocol, ruleset.EtherTypeOf(etherVLAN), ruleset.EtherTypeOf(etherProvider)),
			ruleset.Compare{Field: ruleset.VLANTag, Value: ruleset.Port(0), Mask: ruleset.Port(vlanIdentifier)},
		),
		build.When(build.Drop(), ether(etherIPv4), build.InSet(setOwned4, ruleset.IPSaddr)),
		build.When(build.Drop(), ether(etherARP), build.InSet(setOwned4, ruleset.ARPSaddrIP)),
		build.When(build.Drop(), ether(etherIPv6), build.InSet(setOwned6, ruleset.IP6Saddr)),
		build.When(build.Drop(), ether(etherIPv6), fragmented(true), isICMPv6(), discovery()),
		build.When(build.Drop(), ether(etherIPv6), isICMPv6(), advertisement, target),
		build.When(build.Drop(), ether(etherIPv6), fromUnspecified(), isICMPv6(), solicitation, target),
	)
	return c
}

// ipv6 returns the rules about the source of IPv6 packets.
func ipv6() []ruleset.Rule {
	first, last := linkLocalRange()
	types := func(match ruleset.Match, v ruleset.Verdict) ruleset.Rule {
		return build.When(v, ether(etherIPv6), fromUnspecified(), fragmented(false), isICMPv6(), match)
	}
	return []ruleset.Rule{
		build.When(
			build.Goto(chainICMPv6), ether(etherIPv6), build.InSet(setAddresses6, ruleset.IIFName, ruleset.IP6Saddr),
		),
		build.When(
			build.Goto(chainICMPv6), ether(etherIPv6),
			ruleset.Compare{Field: ruleset.IP6Saddr, Value: first, Last: last}, notIn(setHostLocal, ruleset.IP6Saddr),
		),
		types(build.OneOf(
			ruleset.ICMPv6Type, ruleset.Byte(typeReport), ruleset.Byte(typeRouterSolicitation),
			ruleset.Byte(typeReport2),
		), build.Accept()),
		types(build.Equals(ruleset.ICMPv6Type, ruleset.Byte(typeSolicitation)), build.Goto(chainTarget)),
		build.Always(build.Drop()),
	}
}

// icmpv6 returns the rules about IPv6 packets with an allowed source. If the kernel cannot find the
// transport protocol of a packet, the last rule drops the packet: no rule before that one matches
// it.
func icmpv6() []ruleset.Rule {
	others := discovery()
	others.Not = true
	return []ruleset.Rule{
		build.When(build.Accept(), differs(ruleset.L4Proto, protocolICMPv6)),
		build.When(build.Accept(), ether(etherIPv6), isICMPv6(), others),
		build.When(build.Drop(), ether(etherIPv6), fragmented(true)),
		build.When(build.Accept(), ether(etherIPv6), isICMPv6(), build.OneOf(
			ruleset.ICMPv6Type, ruleset.Byte(typeRouterSolicitation), ruleset.Byte(typeSolicitation),
		)),
		build.When(
			build.Goto(chainTarget), ether(etherIPv6), isICMPv6(),
			build.Equals(ruleset.ICMPv6Type, ruleset.Byte(typeAdvertisement)),
		),
		build.Always(build.Drop()),
	}
}

// discovery returns a match on messages of neighbour discovery.
func discovery() ruleset.In {
	in := ruleset.In{Fields: []ruleset.Field{ruleset.ICMPv6Type}}
	for typ := uint8(typeRouterSolicitation); typ <= typeRedirect; typ++ {
		in.Elements = append(in.Elements, ruleset.Element{Key: []ruleset.Value{ruleset.Byte(typ)}})
	}
	return in
}

// differs returns a match on all values of one byte except v.
func differs(f ruleset.Field, v uint8) ruleset.Match {
	return ruleset.Compare{Field: f, Not: true, Value: ruleset.Byte(v)}
}

// toChain returns an element that leads from an EtherType to a chain.
func toChain(etherType uint16, chain string) ruleset.Element {
	v := build.Goto(chain)
	return ruleset.Element{Key: []ruleset.Value{ruleset.EtherTypeOf(etherType)}, Verdict: &v}
}

// ether returns a match on the EtherType after a VLAN tag. The fields of IP and ARP need it.
func ether(etherType uint16) ruleset.Match {
	return build.Equals(ruleset.Protocol, ruleset.EtherTypeOf(etherType))
}

func isICMPv6() ruleset.Match { return build.Equals(ruleset.L4Proto, ruleset.Byte(protocolICMPv6)) }

// fragmented returns a match on packets with a fragment header, or without one.
func fragmented(is bool) ruleset.Match {
	v := ruleset.Byte(0)
	if is {
		v = ruleset.Byte(1)
	}
	return build.Equals(ruleset.FragmentHeader, v)
}

func fromUnspecified() ruleset.Match {
	return build.Equals(ruleset.IP6Saddr, ruleset.Addr(netip.IPv6Unspecified()))
}

func notIn(set string, fields ...ruleset.Field) ruleset.Match {
	return ruleset.Lookup{Fields: fields, Set: set, Not: true}
}
