// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// transport is what a packet has besides addresses and interfaces.
type transport struct {
	protocol     policy.Protocol
	sport, dport uint16
	typ, code    uint8
	dscp         policy.DSCP
}

// ranges are ranges of numbers, from the first to the last.
type ranges map[[2]int]bool

// mentions are the values of a packet's fields that rules mention: what they can tell apart.
type mentions struct {
	dports, sports, protocols, dscps ranges
	// types and codes are those of ICMP and of ICMPv6.
	types, codes [2]ranges
}

func newMentions() *mentions {
	return &mentions{
		dports: ranges{}, sports: ranges{}, protocols: ranges{}, dscps: ranges{},
		types: [2]ranges{{}, {}}, codes: [2]ranges{{}, {}},
	}
}

func (r ranges) add(first, last int) { r[[2]int{first, last}] = true }

// union adds the mentions of others.
func (m *mentions) union(others ...*mentions) *mentions {
	for _, o := range others {
		for i, c := range o.all() {
			maps.Copy(m.all()[i], c)
		}
	}
	return m
}

func (m *mentions) all() []ranges {
	return []ranges{m.dports, m.sports, m.protocols, m.dscps, m.types[0], m.codes[0], m.types[1], m.codes[1]}
}

// values returns numbers from first to last, of which the ranges tell each from the others: one for
// each piece of a range, and one for all numbers outside. It prefers the standard number.
func (r ranges) values(standard, first, last int) []int {
	change := map[int]int{first: 0}
	for p := range r {
		change[max(p[0], first)]++
		change[p[1]+1]--
	}
	edges := slices.Sorted(maps.Keys(change))
	values := []int{}
	outside := -1
	inside := 0
	for i, from := range edges {
		if inside += change[from]; from < first || from > last {
			continue
		}
		value := from
		if standard >= from && (i+1 == len(edges) || standard < edges[i+1]) {
			value = standard
		}
		if inside > 0 {
			values = append(values, value)
		} else if outside < 0 || value == standard {
			outside = value
		}
	}
	if outside >= 0 {
		values = append(values, outside)
	}
	return values
}

// The numbers that stand for those that nothing mentions.
const (
	otherPort      = 40_000
	otherProtocol  = 253 // for experiments
	echoRequest    = 8
	echoRequestV6  = 128
	firstDiscovery = 133 // ICMPv6 types of router and neighbour discovery
	lastDiscovery  = 137
)

// transports returns a packet of each kind that the mentions tell apart.
func (m *mentions) transports(v6 bool) []transport {
	var list []transport
	protocols := map[int]bool{int(policy.ProtocolTCP): true, int(policy.ProtocolUDP): true}
	for _, p := range m.protocols.values(otherProtocol, 1, 255) {
		protocols[p] = true
	}
	echo, family := echoRequest, 0
	own := policy.ProtocolICMP
	if v6 {
		echo, family, own = echoRequestV6, 1, policy.ProtocolICMPv6
	}
	if len(m.types[family])+len(m.codes[family]) > 0 {
		protocols[int(own)] = true
	}
	dscps := m.dscps.values(0, 0, int(policy.MaxDSCP))
	for _, n := range slices.Sorted(maps.Keys(protocols)) {
		p := policy.Protocol(n)
		for _, dscp := range dscps {
			t := transport{protocol: p, dscp: policy.DSCP(dscp)}
			switch {
			case p.HasPorts():
				for _, dport := range m.dports.values(otherPort, 1, 1<<16-1) {
					for _, sport := range m.sports.values(otherPort, 1, 1<<16-1) {
						t.dport, t.sport = uint16(dport), uint16(sport)
						list = append(list, t)
					}
				}
			case p == own:
				for _, typ := range m.types[family].values(echo, 0, 254) {
					if v6 && typ >= firstDiscovery && typ <= lastDiscovery {
						continue
					}
					for _, code := range m.codes[family].values(0, 0, 255) {
						t.typ, t.code = uint8(typ), uint8(code)
						list = append(list, t)
					}
				}
			default:
				list = append(list, t)
			}
		}
	}
	return list
}

// named has the ports that a name stands for at some endpoint, and those of the services.
type named struct {
	ports    map[string]map[uint16]bool
	services map[policy.ServiceMatch]map[uint16]bool
}

// policyRules adds what rules of a namespace mention.
func (m *mentions) policyRules(rules []policy.Rule, namespace string, names *named) {
	for i := range rules {
		r := &rules[i]
		for _, p := range []policy.Protocol{r.Protocol, r.NotProtocol} {
			if p != 0 {
				m.protocols.add(int(p), int(p))
			}
		}
		for _, side := range []struct {
			to     ranges
			entity *policy.EntityRule
		}{{m.sports, &r.Source}, {m.dports, &r.Destination}} {
			for _, p := range slices.Concat(side.entity.Ports, side.entity.NotPorts) {
				m.protocols.add(int(policy.ProtocolSCTP), int(policy.ProtocolSCTP))
				if p.Name == "" {
					side.to.add(int(p.First), int(p.Last))
				}
				for n := range names.ports[p.Name] {
					side.to.add(int(n), int(n))
				}
			}
		}
		if s := r.Destination.Services; s != nil {
			for n := range names.services[s.In(namespace)] {
				m.dports.add(int(n), int(n))
				m.protocols.add(int(policy.ProtocolSCTP), int(policy.ProtocolSCTP))
			}
		}
		for _, icmp := range []*policy.ICMP{r.ICMP, r.NotICMP} {
			if icmp == nil || icmp.Type == nil {
				continue
			}
			for family := range m.types {
				m.types[family].add(*icmp.Type, *icmp.Type)
				if icmp.Code != nil {
					m.codes[family].add(*icmp.Code, *icmp.Code)
				}
			}
		}
		for _, d := range slices.Concat(r.DSCP, r.NotDSCP) {
			m.dscps.add(int(d), int(d))
		}
	}
}

// failsafes adds what failsafe ports mention.
func (m *mentions) failsafes(list []policy.Failsafe) {
	for _, f := range list {
		m.protocols.add(int(f.Protocol), int(f.Protocol))
		m.dports.add(int(f.Port), int(f.Port))
		m.sports.add(int(f.Port), int(f.Port))
	}
}

// field adds a range of values of a field that a rule of the table mentions.
func (m *mentions) field(f ruleset.Field, first, last ruleset.Value) {
	var to ranges
	switch f {
	case ruleset.Dport, ruleset.CtOriginalDport:
		to = m.dports
	case ruleset.Sport:
		to = m.sports
	case ruleset.L4Proto:
		to = m.protocols
	case ruleset.IPDSCP, ruleset.IP6DSCP:
		to = m.dscps
	case ruleset.ICMPType:
		to = m.types[0]
	case ruleset.ICMPCode:
		to = m.codes[0]
	case ruleset.ICMPv6Type:
		to = m.types[1]
	case ruleset.ICMPv6Code:
		to = m.codes[1]
	default:
		return
	}
	number := func(v ruleset.Value) (n int) {
		for _, b := range v {
			n = n<<8 | int(b)
		}
		return n
	}
	to.add(number(first), number(last))
}
