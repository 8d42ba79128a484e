// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// workloadAllowances lets through what workloads may tell their host whatever policy says.
func (r *Renderer) workloadAllowances() (out []ruleset.Rule) {
	if !r.cfg.DenyNeighbourDiscovery {
		out = append(out, discovery(jump(chainDiscovery), routerSolicitation, neighborSolicitation, neighborAdvertisement))
	}
	if r.cfg.AllowDHCP {
		udp := equals(ruleset.L4Proto, ruleset.Byte(uint8(policy.ProtocolUDP)))
		up := inSet(setUp, ruleset.IIFName)
		out = append(out,
			noted(when(accept(), ofFamily(ipv4), udp, equals(ruleset.Sport, ruleset.Port(68)), equals(ruleset.Dport, ruleset.Port(67)), up), "DHCP"),
			noted(when(accept(), ofFamily(ipv6), linkLocalSource(), udp,
				equals(ruleset.Sport, ruleset.Port(546)), equals(ruleset.Dport, ruleset.Port(547)), up), "DHCPv6"))
	}
	return out
}

// hostAllowances lets through what the host and its neighbours need to find each other, in either direction: nothing that is
// forwarded, as far as that is known.
func (r *Renderer) hostAllowances(l hostList) []ruleset.Rule {
	if r.cfg.DenyNeighbourDiscovery || l == hostForwardIn || l == hostForwardOut {
		return nil
	}
	rule := discovery(accept(), routerSolicitation, routerAdvertisement, neighborSolicitation, neighborAdvertisement)
	if l == hostRawIn || l == hostPreDNAT {
		rule.Matches = append(rule.Matches, oneOf(ruleset.FibDaddrType, ruleset.Uint32(ruleset.FibTypeLocal), ruleset.Uint32(ruleset.FibTypeMulticast)))
	}
	return []ruleset.Rule{rule}
}

// discovery matches neighbour discovery of these types. Router advertisements are not for workloads to make.
func discovery(v ruleset.Verdict, types ...uint8) ruleset.Rule {
	values := make([]ruleset.Value, len(types))
	for i, t := range types {
		values[i] = ruleset.Byte(t)
	}
	return when(v, ofFamily(ipv6), equals(ruleset.L4Proto, ruleset.Byte(protocolICMPv6)), oneOf(ruleset.ICMPv6Type, values...))
}

// discoveryChain lets neighbour discovery to the host through, from endpoints that may have traffic: without
// a source (duplicate address detection), from a link-local one, or from one of the endpoint's own. Other
// packets go back to where they came from.
func discoveryChain() *ruleset.Chain {
	return &ruleset.Chain{Name: chainDiscovery, Rules: []ruleset.Rule{
		when(accept(), ofFamily(ipv6), equals(ruleset.IP6Saddr, make(ruleset.Value, 16)), inSet(setUp, ruleset.IIFName)),
		when(accept(), ofFamily(ipv6), linkLocalSource(), inSet(setUp, ruleset.IIFName)),
		when(accept(), ofFamily(ipv6), inSet(setSource6, ruleset.IIFName, ruleset.IP6Saddr)),
	}}
}

func linkLocalSource() ruleset.Match {
	return ruleset.Compare{Field: ruleset.IP6Saddr, Value: linkLocal(0), Last: linkLocal(0xff)}
}

// linkLocal returns the first (0) or last (0xff) address of fe80::/10.
func linkLocal(fill byte) ruleset.Value {
	v := ruleset.Value{0xfe, 0x80 | fill&0x3f}
	for len(v) < 16 {
		v = append(v, fill)
	}
	return v
}
