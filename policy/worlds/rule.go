// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

func withPorts() []policy.Protocol {
	return []policy.Protocol{policy.ProtocolTCP, policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolSCTP}
}

func protocols() []policy.Protocol {
	return append(withPorts(), policy.ProtocolICMP, policy.ProtocolICMPv6, 253)
}

func ports() []uint16 { return []uint16{1, 53, 80, 81, 8080, 65535} }

func (g *Generator) rules(most int) []policy.Rule {
	var rules []policy.Rule
	for range g.rng.IntN(most + 1) {
		rules = append(rules, g.rule())
	}
	return rules
}

func (g *Generator) rule() policy.Rule {
	r := policy.Rule{
		Action: Pick(g, []policy.Action{
			policy.Allow, policy.Allow, policy.Allow, policy.Deny, policy.Deny, policy.Pass, policy.Log,
		}),
		Source:      g.entity(),
		Destination: g.entity(),
	}
	if g.chance(6) {
		r.IPVersion = Pick(g, []int{4, 6})
	}
	if g.chance(2) {
		r.Protocol = Pick(g, protocols())
	}
	if g.chance(8) {
		r.NotProtocol = Pick(g, protocols())
	}
	if r.Protocol == policy.ProtocolICMP || r.Protocol == policy.ProtocolICMPv6 {
		if g.chance(2) {
			r.ICMP = g.icmp()
		}
		if g.chance(3) {
			r.NotICMP = g.icmp()
		}
	}
	g.headerMatch(&r.HeaderMatch)
	if r.Protocol.HasPorts() || r.Protocol == 0 {
		g.portsOf(&r.Source, r.Protocol)
		g.portsOf(&r.Destination, r.Protocol)
	}
	if g.cfg.Open {
		g.thin(&r)
	}
	return r
}

// thin removes conditions from a rule, so that more packets match it. A few stay.
func (g *Generator) thin(r *policy.Rule) {
	g.thinSide(&r.Source)
	g.thinSide(&r.Destination)
	for _, clear := range []func(){
		func() { r.IPVersion = 0 },
		func() { r.NotProtocol = 0 },
		func() { r.NotICMP = nil },
		func() { r.HeaderMatch = policy.HeaderMatch{} },
	} {
		if g.chance(2) {
			clear()
		}
	}
	switch {
	case g.chance(8):
		g.onlyICMP(r)
	case r.Protocol == 0 && r.Source.IsZero() && r.Destination.IsZero() && !g.chance(8):
		r.Protocol = Pick(g, protocols())
	}
}

// onlyICMP changes the rule to one about ICMP types.
func (g *Generator) onlyICMP(r *policy.Rule) {
	r.Protocol, r.ICMP, r.NotICMP = Pick(g, []policy.Protocol{policy.ProtocolICMP, policy.ProtocolICMPv6}), nil, nil
	for _, e := range []*policy.EntityRule{&r.Source, &r.Destination} {
		e.Ports, e.NotPorts = nil, nil
	}
	if g.chance(2) {
		r.ICMP = g.icmp()
	} else {
		r.NotICMP = g.icmp()
	}
}

// thinSide leaves at most one condition on the address, and often none on the ports.
func (g *Generator) thinSide(e *policy.EntityRule) {
	one := policy.EntityRule{}
	switch g.rng.IntN(10) {
	case 0, 1:
		one.Selector, one.NamespaceSelector = e.Selector, e.NamespaceSelector
	case 2:
		one.NotSelector = e.NotSelector
		if one.NotSelector == "" {
			one.NotSelector = Pick(g, selectors())
		}
	case 3:
		one.Nets = g.nets(3)
	case 4:
		one.NotNets = g.nets(2)
	case 5:
		one.Selector, one.NotSelector = Pick(g, selectors()), Pick(g, selectors())
	case 6:
		one.ServiceAccounts = e.ServiceAccounts
	}
	if g.chance(2) {
		one.Ports, one.NotPorts = e.Ports, e.NotPorts
	}
	*e = one
}

func (g *Generator) icmp() *policy.ICMP {
	typ, code := Pick(g, []int{0, 3, 8, 128}), g.rng.IntN(2)
	i := &policy.ICMP{Type: &typ}
	if g.chance(2) {
		i.Code = &code
	}
	return i
}

func (g *Generator) entity() policy.EntityRule {
	var e policy.EntityRule
	if g.chance(3) {
		e.Selector = Pick(g, selectors())
	}
	if g.chance(7) {
		e.NotSelector = Pick(g, selectors())
	}
	if g.chance(7) {
		e.NamespaceSelector = Pick(g, namespaceSelectors())
	}
	if g.chance(7) {
		e.Nets = g.nets(3)
	}
	if g.chance(8) {
		e.NotNets = g.nets(2)
	}
	switch g.rng.IntN(20) {
	case 0:
		e.ServiceAccounts = &policy.ServiceAccounts{Names: []string{"robot"}}
	case 1:
		e.ServiceAccounts = &policy.ServiceAccounts{Selector: `team == "x"`}
	}
	return e
}

// portsOf adds ports to a side. Numbers need a protocol with ports.
func (g *Generator) portsOf(e *policy.EntityRule, proto policy.Protocol) {
	if g.chance(4) {
		e.Ports = g.portList(proto)
	}
	if g.chance(8) {
		e.NotPorts = g.portList(proto)
	}
}

func (g *Generator) portList(proto policy.Protocol) []policy.Port {
	var list []policy.Port
	for range 1 + g.rng.IntN(3) {
		switch {
		case proto == 0 || g.chance(3):
			list = append(list, policy.PortName(Pick(g, portNames())))
		case g.chance(3):
			list = append(list, policy.PortRange(Pick(g, []uint16{1, 50, 80}), Pick(g, []uint16{80, 81, 65535})))
		default:
			list = append(list, policy.PortNumber(Pick(g, ports())))
		}
	}
	return list
}

func (g *Generator) nets(most int) policy.Nets {
	var nets policy.Nets
	for range g.rng.IntN(most + 1) {
		addr := g.address()
		bits := addr.BitLen()
		if g.chance(2) {
			bits = Pick(g, []int{0, 1, 8, 24, 30, 31})
		}
		prefix := netip.PrefixFrom(addr, bits).Masked()
		if !slices.Contains(nets, prefix) {
			nets = append(nets, prefix)
		}
	}
	return nets
}

// address returns one of some twenty addresses of both families.
func (g *Generator) address() netip.Addr {
	last := byte(1 + g.rng.IntN(8))
	switch g.rng.IntN(5) {
	case 0, 1:
		return netip.AddrFrom4([4]byte{10, 0, 0, last})
	case 2:
		return netip.AddrFrom4([4]byte{192, 0, 2, last})
	default:
		return netip.AddrFrom16([16]byte{0: 0xfd, 15: last})
	}
}

// Packet is the first packet of a connection. Ports are zero if the protocol has none.
type Packet struct {
	Src, Dst           netip.Addr
	Protocol           policy.Protocol
	SrcPort, DstPort   uint16
	ICMPType, ICMPCode uint8
	policy.Header
}

// Packet returns a packet between two addresses of one family.
func (g *Generator) Packet() Packet {
	p := Packet{Src: g.address(), Protocol: Pick(g, protocols()), Header: g.header()}
	for p.Dst = g.address(); p.Dst.Is4() != p.Src.Is4(); {
		p.Dst = g.address()
	}
	if p.Src.Is4() && p.Protocol == policy.ProtocolICMPv6 || p.Src.Is6() && p.Protocol == policy.ProtocolICMP {
		p.Protocol = policy.ProtocolTCP
	}
	switch {
	case p.Protocol.HasPorts():
		p.SrcPort, p.DstPort = Pick(g, ports()), Pick(g, ports())
	case p.Protocol != 253:
		p.ICMPType, p.ICMPCode = Pick(g, []uint8{0, 3, 8, 128}), uint8(g.rng.IntN(2))
	}
	return p
}

// Corrupt makes one field of a rule invalid.
func (g *Generator) Corrupt(r *policy.Rule) {
	e := &r.Source
	if g.chance(2) {
		e = &r.Destination
	}
	badType := 255
	Pick(g, append(corruptHeader(&r.HeaderMatch), []func(){
		func() { r.Action = "" },
		func() { r.Action = "Perhaps" },
		func() { r.IPVersion = 5 },
		func() { r.NotICMP = &policy.ICMP{} },
		func() { r.Protocol, r.ICMP = policy.ProtocolICMP, &policy.ICMP{Type: &badType} },
		func() { e.Nets = append(e.Nets[:len(e.Nets):len(e.Nets)], netip.Prefix{}) },
		func() { e.NotNets = policy.Nets{netip.MustParsePrefix("10.1.2.3/8")} },
		func() { e.Selector = "a ==" },
		func() { e.NotSelector = "(" },
		func() { e.NamespaceSelector = "has(" },
		func() { e.ServiceAccounts = &policy.ServiceAccounts{} },
		func() { e.Services = &policy.ServiceMatch{} },
		func() { e.Ports = append(e.Ports[:len(e.Ports):len(e.Ports)], policy.Port{}) },
		func() { e.NotPorts = []policy.Port{policy.PortRange(9, 8)} },
	}...))()
}

// corruptOne corrupts one of the rules in place, if there are any.
func (g *Generator) corruptOne(rules []policy.Rule) {
	if len(rules) > 0 {
		g.Corrupt(&rules[g.rng.IntN(len(rules))])
	}
}
