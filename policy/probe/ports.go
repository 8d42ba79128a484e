// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// PortGroup is a port that represents all ports that policy cannot distinguish from it.
type PortGroup struct {
	Port
	// Last port of the range that begins with Number, or Number for a single port. 0 if the
	// protocol has no ports.
	Last uint16
	// Mentioned reports whether a rule, a service or a named port mentions the port. If it is
	// false, the PortGroup represents all ports of the protocol that no resource mentions.
	Mentioned bool
}

// String returns a port such as "tcp/80", or a range of ports. If Mentioned is false, it returns a
// text such as "tcp/other". ParsePort accepts a port, but no range and no such text.
func (p PortGroup) String() string {
	text := p.Port.String()
	switch {
	case !p.Mentioned && p.Protocol.HasPorts():
		return strings.ToLower(p.Protocol.String()) + "/other"
	case !p.Mentioned && p.Typed:
		return strings.ToLower(p.Protocol.String()) + "/other"
	case !p.Mentioned && !isICMP(p.Protocol):
		return "ip/other"
	case p.Last > p.Number:
		return fmt.Sprintf("%s-%d", text, p.Last)
	}
	return text
}

// interval is a range of ports, including both ends.
type interval struct{ first, last uint16 }

// icmpKind is an ICMP type, or type and code.
type icmpKind struct {
	protocol policy.Protocol
	typ      uint8
	code     int // -1 means any
}

// mentions has the ports, protocols and ICMP messages that the resources of worlds mention.
type mentions struct {
	ports       map[policy.Protocol][]interval
	icmp        map[icmpKind]bool
	protocols   map[policy.Protocol]bool
	sourcePorts bool
}

// readMentions collects what the resources of all worlds mention.
func readMentions(worlds []verdict.World) *mentions {
	m := &mentions{
		ports: map[policy.Protocol][]interval{}, icmp: map[icmpKind]bool{}, protocols: map[policy.Protocol]bool{},
	}
	for _, world := range worlds {
		for _, resource := range world {
			m.read(resource)
		}
	}
	m.protocols[policy.ProtocolTCP], m.protocols[policy.ProtocolUDP] = true, true
	return m
}

// groups returns the groups of ports, sorted by protocol and then by number.
func (m *mentions) groups() []PortGroup {
	var groups []PortGroup
	for p := range m.protocols {
		switch {
		case p.HasPorts():
			groups = append(groups, ranges(p, m.ports[p])...)
		case !isICMP(p):
			groups = append(groups, PortGroup{Port: Port{Protocol: p}, Mentioned: true})
		}
	}
	groups = append(groups, m.messages()...)
	for p := policy.Protocol(253); p > 0; p-- { // 253 is reserved for experiments
		if !m.protocols[p] && p.String()[0] <= '9' {
			groups = append(groups, PortGroup{Port: Port{Protocol: p}})
			break
		}
	}
	slices.SortFunc(groups, comparePortGroups)
	return groups
}

// comparePortGroups orders TCP and UDP first. A group that is not mentioned is the last one of its
// protocol.
func comparePortGroups(a, b PortGroup) int {
	return cmp.Or(
		cmp.Compare(rank(a), rank(b)),
		cmp.Compare(flag(!a.Mentioned), flag(!b.Mentioned)),
		cmp.Compare(a.Number, b.Number),
		cmp.Compare(flag(a.Typed), flag(b.Typed)),
		cmp.Compare(a.Type, b.Type),
		cmp.Compare(a.Code, b.Code),
	)
}

// rank orders protocols. One that is not mentioned is last.
func rank(p PortGroup) int {
	order := []policy.Protocol{
		policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolSCTP, policy.ProtocolICMP, policy.ProtocolICMPv6,
	}
	if i := slices.Index(order, p.Protocol); i >= 0 {
		return i
	}
	return len(order) + int(p.Protocol) + 256*flag(!p.Mentioned)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// read collects what a resource mentions. It ignores staged policies, which decide nothing.
func (m *mentions) read(resource policy.Resource) {
	switch r := resource.(type) {
	case *policy.WorkloadEndpoint:
		m.named(r.Ports)
	case *policy.HostEndpoint:
		m.named(r.Ports)
	case *policy.ServiceBackends:
		for _, p := range r.Ports {
			m.port(p.Protocol, policy.PortNumber(p.Port))
		}
	case *policy.Profile:
		m.rules(r.Ingress)
		m.rules(r.Egress)
	case *policy.Policy:
		if !r.Staged {
			m.rules(r.Ingress)
			m.rules(r.Egress)
		}
	}
}

func (m *mentions) named(ports []policy.EndpointPort) {
	for _, p := range ports {
		m.port(p.Protocol, policy.PortNumber(p.Port))
	}
}

func (m *mentions) port(protocol policy.Protocol, p policy.Port) {
	if p.Name == "" && protocol != 0 { // a name stands for ports of endpoints, which are read, too
		m.protocols[protocol] = true
		m.ports[protocol] = append(m.ports[protocol], interval{p.First, p.Last})
	}
}

func (m *mentions) rules(rules []policy.Rule) {
	for _, r := range rules {
		for _, p := range []policy.Protocol{r.Protocol, r.NotProtocol} {
			if p != 0 {
				m.protocols[p] = true
			}
		}
		for _, ports := range [][]policy.Port{r.Destination.Ports, r.Destination.NotPorts} {
			for _, p := range ports {
				m.port(r.Protocol, p)
			}
		}
		if len(r.Source.Ports)+len(r.Source.NotPorts) > 0 {
			m.sourcePorts = true
		}
		for _, i := range []*policy.ICMP{r.ICMP, r.NotICMP} {
			if i == nil || i.Type == nil {
				continue
			}
			kind := icmpKind{protocol: r.Protocol, typ: uint8(*i.Type), code: -1}
			if i.Code != nil {
				kind.code = *i.Code
			}
			m.icmp[kind] = true
		}
	}
}

// ranges divides the ports of a protocol at the boundaries of the intervals. It returns the first
// port of each section that lies in an interval, and the first port that is in no interval.
func ranges(protocol policy.Protocol, list []interval) []PortGroup {
	cuts := []int{1, 65536}
	for _, i := range list {
		cuts = append(cuts, max(1, int(i.first)), int(i.last)+1)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var ports []PortGroup
	other := false
	for i := range len(cuts) - 1 {
		first, last := uint16(cuts[i]), uint16(cuts[i+1]-1)
		mentioned := slices.ContainsFunc(list, func(i interval) bool { return i.first <= first && first <= i.last })
		if !mentioned && other {
			continue
		}
		other = other || !mentioned
		ports = append(ports, PortGroup{
			Port: Port{Protocol: protocol, Number: first}, Last: last, Mentioned: mentioned,
		})
	}
	return ports
}

// messages returns the ICMP messages to try.
func (m *mentions) messages() []PortGroup {
	ports := []PortGroup{{Port: Port{Protocol: policy.ProtocolICMP}, Mentioned: true}} // ping, of both families
	add := func(protocol policy.Protocol, typ, code uint8, mentioned bool) {
		p := PortGroup{
			Port:      Port{Protocol: protocol, Typed: true, Type: typ, Code: code},
			Mentioned: mentioned,
		}
		if !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
	}
	for _, protocol := range []policy.Protocol{policy.ProtocolICMP, policy.ProtocolICMPv6} {
		echo := uint8(8)
		if protocol == policy.ProtocolICMPv6 {
			echo = 128
		}
		types := map[uint8]bool{}
		for kind := range m.icmp {
			if kind.protocol != protocol {
				continue
			}
			types[kind.typ] = true
			if kind.code > 0 && kind.code <= 255 || kind.code == 0 && kind.typ != echo {
				add(protocol, kind.typ, uint8(kind.code), true)
			}
		}
		if len(types) == 0 {
			continue // no rule distinguishes these messages
		}
		types[echo] = true
		for typ := range types {
			code, free := unused(func(n int) bool { return m.icmp[icmpKind{protocol, typ, n}] })
			if free && (typ != echo || code != 0) {
				add(protocol, typ, code, true)
			}
		}
		if typ, free := unused(func(n int) bool { return types[uint8(n)] || n == 255 }); free {
			add(protocol, typ, 0, false)
		}
	}
	return ports
}

// unused returns the smallest byte that is not used.
func unused(used func(int) bool) (uint8, bool) {
	for n := range 256 {
		if !used(n) {
			return uint8(n), true
		}
	}
	return 0, false
}
