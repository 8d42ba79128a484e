// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/internal/match"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// workloadAllowances accepts some packets from workloads to their host, whatever policy decides.
func (b *baseChains) workloadAllowances() (out []ruleset.Rule) {
	if !b.cfg.DenyNeighbourDiscovery {
		out = append(out, discovery(
			build.Jump(chainOwnSource), routerSolicitation, neighborSolicitation, neighborAdvertisement,
		))
	}
	if b.cfg.AllowDHCP {
		out = append(
			out, build.Commented(dhcp(sets.IPv4, 68, 67), "DHCP"), build.Commented(dhcp(sets.IPv6, 546, 547), "DHCPv6"),
		)
	}
	return out
}

// dhcp jumps to the check of the source, for packets from a DHCP client to a server.
func dhcp(f sets.Family, client, server uint16) ruleset.Rule {
	return build.When(build.Jump(chainOwnSource), match.OfFamily(f),
		build.Equals(ruleset.L4Proto, ruleset.Byte(uint8(policy.ProtocolUDP))),
		build.Equals(ruleset.Sport, ruleset.Port(client)), build.Equals(ruleset.Dport, ruleset.Port(server)))
}

// discovery matches neighbour discovery of the given types. Workloads may not send router
// advertisements.
func discovery(v ruleset.Verdict, types ...uint8) ruleset.Rule {
	values := make([]ruleset.Value, len(types))
	for i, t := range types {
		values[i] = ruleset.Byte(t)
	}
	return build.When(
		v, match.OfFamily(sets.IPv6), build.Equals(ruleset.L4Proto, ruleset.Byte(protocolICMPv6)),
		build.OneOf(ruleset.ICMPv6Type, values...),
	)
}

// ownSourceChain accepts neighbour discovery and DHCP of endpoints that are up, if the source is
// unspecified, link-local or an own address (S175). Packets from other sources return, and policy
// decides.
//
// The workload's link-local address is not known, so every link-local address is accepted except
// those of the host. That is safe, because only the workload and the host are on the link.
//
// At a bridge, the other ports are on the link, too. There, a workload can use the link-local
// address of another one.
func (b *baseChains) ownSourceChain() *ruleset.Chain {
	from := []ruleset.Match{build.InSet(setUp, ruleset.IIFName)}
	if len(b.cfg.Bridges) > 0 {
		from = append(from, b.onBridge(ruleset.IIFName))
	}
	notLocal := ruleset.Compare{Field: ruleset.FibSaddrType, Not: true, Value: ruleset.Uint32(ruleset.FibTypeLocal)}
	c := &ruleset.Chain{Name: chainOwnSource}
	accept := func(matches ...ruleset.Match) { c.Rules = append(c.Rules, build.When(build.Accept(), matches...)) }
	unspecified := func(f sets.Family, size int) {
		for _, up := range from {
			accept(match.OfFamily(f), build.Equals(match.Saddr(f), make(ruleset.Value, size)), up)
		}
	}
	unspecified(sets.IPv4, 4)
	accept(match.OfFamily(sets.IPv4), ownAddress(sets.IPv4))
	unspecified(sets.IPv6, 16)
	for _, up := range from {
		accept(match.OfFamily(sets.IPv6), linkLocalAddress(ruleset.IP6Saddr), up, notLocal)
	}
	accept(match.OfFamily(sets.IPv6), ownAddress(sets.IPv6))
	return c
}

// linkLocalAddress matches fe80::/10.
func linkLocalAddress(field ruleset.Field) ruleset.Match {
	return ruleset.Compare{Field: field, Value: linkLocal(0), Last: linkLocal(0xff)}
}

// linkLocal returns the first (0) or last (0xff) address of fe80::/10.
func linkLocal(fill byte) ruleset.Value {
	v := ruleset.Value{0xfe, 0x80 | fill&0x3f}
	for len(v) < 16 {
		v = append(v, fill)
	}
	return v
}
