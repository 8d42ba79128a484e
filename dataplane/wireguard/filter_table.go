// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Priorities of the base chains.
const (
	preroutingPriority  = -300 // NF_IP_PRI_RAW: before connection tracking
	translatedPriority  = -99  // after NF_IP_PRI_NAT_DST, the translation of destinations
	postroutingPriority = 99   // before NF_IP_PRI_NAT_SRC, the translation of sources
)

// Numbers of the kernel.
const (
	nfprotoIPv4, nfprotoIPv6 = 2, 10
	protocolUDP              = 17
	protocolICMPv6           = 58
	loopback                 = "lo"
	// Router solicitation is the first and redirect the last type of neighbour discovery (RFC
	// 4861). Nodes send it unencrypted.
	routerSolicitation, redirect = 133, 137
)

// The names of sets, without the IP version. Each is the name of a field of filterPrefixes.
const ownSetName, remoteSetName, exemptSetName = "own", "remote", "exempt"

// filterFamily has the constants of an IP version in the table.
type filterFamily struct {
	version                int
	number                 uint8 // NFPROTO_IPV4 or NFPROTO_IPV6
	typ                    ruleset.Type
	saddr, daddr, original ruleset.Field
}

func filterFamilies() []filterFamily {
	return []filterFamily{
		{4, nfprotoIPv4, ruleset.TypeIPv4, ruleset.IPSaddr, ruleset.IPDaddr, ruleset.CtOriginalDaddr},
		{6, nfprotoIPv6, ruleset.TypeIPv6, ruleset.IP6Saddr, ruleset.IP6Daddr, ruleset.CtOriginalDaddr6},
	}
}

// table returns the nftables table, with the rules of the options that are set. It always has all
// base chains: while the applier deletes a base chain of an earlier process, it drops all packets
// at the hooks of the table.
func (f *filter) table(p filterPrefixes) *ruleset.Table {
	prerouting := chain(ruleset.Prerouting, "prerouting", preroutingPriority)
	translated := chain(ruleset.Prerouting, "translated", translatedPriority)
	postrouting := chain(ruleset.Postrouting, "postrouting", postroutingPriority)
	t := &ruleset.Table{Name: f.cfg.FilterTable, Chains: []*ruleset.Chain{prerouting, translated, postrouting}}
	if f.cfg.RequireEncryption {
		f.fillPrerouting(t, prerouting, translated, p)
	}
	if f.cfg.HostEncryption {
		f.fillPostrouting(t, postrouting, p)
	}
	return t
}

// fillPrerouting adds the rules and sets of RequireEncryption. The chains drop a packet if all of
// this holds:
//
//   - The packet did not enter by a WireGuard device.
//   - The packet's destination is in one of the own prefixes.
//   - This node's route to the packet's source is over a WireGuard device.
//
// The chain called translated checks the same after the translation of the destination.
func (f *filter) fillPrerouting(t *ruleset.Table, prerouting, translated *ruleset.Chain, p filterPrefixes) {
	fromDevices := rule(oneOf(ruleset.IIFName, append(f.deviceNames(), ruleset.Ifname(loopback))...))
	prerouting.Rules = append([]ruleset.Rule{fromDevices}, f.hostRules()...)
	translated.Rules = []ruleset.Rule{fromDevices}
	// Packets without a connection, such as those of neighbour discovery, have no status and do not
	// match.
	isTranslated := equals(ruleset.CtStatus, ruleset.Uint32(ruleset.CtSNAT|ruleset.CtDNAT))
	for _, family := range filterFamilies() {
		ownSet := family.set(ownSetName, p.own)
		t.Sets = append(t.Sets, ownSet)
		if !f.cfg.HostEncryption { // other nodes send unencrypted packets to these addresses, as to a NodePort
			hosts := family.set("hosts", p.hosts)
			t.Sets = append(t.Sets, hosts)
			translated.Rules = append(translated.Rules, rule(family.in(family.original, hosts)...))
		}
		drop := dropRule("unencrypted packet from a node that encrypts",
			append(family.in(family.daddr, ownSet), oneOf(ruleset.FibSaddrOIFName, f.deviceNames()...))...)
		prerouting.Rules = append(prerouting.Rules, drop)
		drop.Matches = append([]ruleset.Match{isTranslated}, drop.Matches...)
		translated.Rules = append(translated.Rules, drop)
	}
}

// fillPostrouting adds the rules and sets of HostEncryption. If a socket is bound to an interface,
// the kernel ignores the routes over other interfaces, so also those over the WireGuard devices.
// The chain drops a packet if all of this holds:
//
//   - The packet's source is an address of this node. So the packet is the node's own.
//   - The packet's destination is in one of the remote prefixes.
//   - The packet does not leave by a WireGuard device.
//
// Neighbour discovery, packets that are encrypted already, and packets from and to exempt prefixes
// pass.
//
// In the hook postrouting, the packet's interface and destination are final. Forwarded packets are
// not checked, because they take the routes over the WireGuard devices. With br_netfilter, the hook
// also sees packets that a bridge forwards between other hosts. The chain must not drop these.
//
// All rules are in the base chain: if the kernel refuses one, the applier writes nothing. If the
// refused rule were in another chain, the applier would let that chain drop all packets.
func (f *filter) fillPostrouting(t *ruleset.Table, postrouting *ruleset.Chain, p filterPrefixes) {
	postrouting.Rules = []ruleset.Rule{
		rule(oneOf(ruleset.OIFName, append(f.deviceNames(), ruleset.Ifname(loopback))...)),
		neighbourDiscovery(),
		rule(equals(ruleset.L4Proto, ruleset.Byte(protocolUDP)), oneOf(ruleset.Sport, f.ports()...)),
	}
	// The first address of an IPv6 subnet can be both: an address of this node, and the anycast
	// address of the subnet's routers (RFC 4291, section 2.6.1).
	local, anycast := ruleset.Uint32(ruleset.FibTypeLocal), ruleset.Uint32(ruleset.FibTypeAnycast)
	fromNode := oneOf(ruleset.FibSaddrType, local, anycast)
	for _, family := range filterFamilies() {
		remote, exempt := family.set(remoteSetName, p.remote), family.set(exemptSetName, p.exempt)
		t.Sets = append(t.Sets, remote, exempt)
		postrouting.Rules = append(postrouting.Rules,
			rule(family.in(family.saddr, exempt)...), rule(family.in(family.daddr, exempt)...),
			dropRule("unencrypted packet of this node", append(family.in(family.daddr, remote), fromNode)...))
	}
}

// deviceNames returns the names of the devices, as values of the table.
func (f *filter) deviceNames() (names []ruleset.Value) {
	for _, d := range f.cfg.Devices {
		names = append(names, ruleset.Ifname(d.Name))
	}
	return names
}

// ports returns the UDP ports of the devices, as values of the table.
func (f *filter) ports() (ports []ruleset.Value) {
	for _, d := range f.cfg.Devices {
		ports = append(ports, ruleset.Port(d.Port))
	}
	return ports
}

// hostRules returns the rules that the chain prerouting needs with HostEncryption. They accept
// neighbour discovery and the outer, encrypted packets. Nodes send both kinds of packets by other
// interfaces, although the route to the address of a node is over a WireGuard device.
func (f *filter) hostRules() []ruleset.Rule {
	if !f.cfg.HostEncryption {
		return nil
	}
	return []ruleset.Rule{
		neighbourDiscovery(),
		rule(
			equals(ruleset.FibDaddrType, ruleset.Uint32(ruleset.FibTypeLocal)),
			equals(ruleset.L4Proto, ruleset.Byte(protocolUDP)), oneOf(ruleset.Dport, f.ports()...),
		),
	}
}

// neighbourDiscovery returns a rule that accepts neighbour discovery.
func neighbourDiscovery() ruleset.Rule {
	return rule(
		equals(ruleset.NFProto, ruleset.Byte(nfprotoIPv6)), equals(ruleset.L4Proto, ruleset.Byte(protocolICMPv6)),
		ruleset.Compare{
			Field: ruleset.ICMPv6Type, Value: ruleset.Byte(routerSolicitation), Last: ruleset.Byte(redirect),
		},
	)
}

func (f filterFamily) setName(name string) string { return fmt.Sprintf("%s%d", name, f.version) }

// set returns the set of the prefixes that are of the family.
func (f filterFamily) set(name string, prefixes []netip.Prefix) *ruleset.Set {
	s := &ruleset.Set{Name: f.setName(name), Key: []ruleset.Type{f.typ}, Interval: true}
	for _, p := range prefixes {
		if version(p.Addr()) == f.version {
			s.Elements = append(s.Elements, ruleset.Element{
				Key: []ruleset.Value{ruleset.Addr(p.Addr())}, Last: ruleset.Addr(ruleset.LastAddr(p)),
			})
		}
	}
	return s
}

// in returns matches for packets of the family whose field is in the set.
func (f filterFamily) in(field ruleset.Field, set *ruleset.Set) []ruleset.Match {
	return []ruleset.Match{
		equals(ruleset.NFProto, ruleset.Byte(f.number)),
		ruleset.Lookup{Fields: []ruleset.Field{field}, Set: set.Name},
	}
}

func chain(point ruleset.HookPoint, name string, priority int) *ruleset.Chain {
	accept := ruleset.Verdict{Kind: ruleset.Accept}
	return &ruleset.Chain{Name: name, Hook: &ruleset.Hook{Point: point, Priority: priority, Policy: accept}}
}

// dropRule returns a rule that counts and drops.
func dropRule(comment string, matches ...ruleset.Match) ruleset.Rule {
	return ruleset.Rule{
		Matches:    matches,
		Statements: []ruleset.Statement{ruleset.Counter{}, ruleset.Verdict{Kind: ruleset.Drop}},
		Comment:    comment,
	}
}

// rule returns a rule that accepts.
func rule(matches ...ruleset.Match) ruleset.Rule {
	return ruleset.Rule{Matches: matches, Statements: []ruleset.Statement{ruleset.Verdict{Kind: ruleset.Accept}}}
}

func equals(f ruleset.Field, v ruleset.Value) ruleset.Match {
	return ruleset.Compare{Field: f, Value: v}
}

func oneOf(f ruleset.Field, values ...ruleset.Value) ruleset.Match {
	in := ruleset.In{Fields: []ruleset.Field{f}}
	for _, v := range values {
		in.Elements = append(in.Elements, ruleset.Element{Key: []ruleset.Value{v}})
	}
	return in
}
