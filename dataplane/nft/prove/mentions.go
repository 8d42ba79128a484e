// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// transport has the fields of a packet other than addresses and interfaces.
type transport struct {
	protocol     policy.Protocol
	sport, dport uint16
	header       header
}

// ranges has ranges of numbers, each from its first to its last number.
type ranges map[[2]int]bool

// mentions has the values of a packet's fields that rules mention. Rules can distinguish only
// these.
type mentions struct {
	dports, sports, protocols ranges
	// headers has the values of the header fields, for IPv4 and IPv6.
	headers [2][ruleset.HeaderFields]ranges
}

func newMentions() *mentions {
	m := &mentions{dports: ranges{}, sports: ranges{}, protocols: ranges{}}
	for v6 := range m.headers {
		for h := range m.headers[v6] {
			m.headers[v6][h] = ranges{}
		}
	}
	return m
}

func (r ranges) add(first, last int) { r[[2]int{first, last}] = true }

// union adds all that others mention.
func (m *mentions) union(others ...*mentions) *mentions {
	for _, o := range others {
		for i, c := range o.all() {
			maps.Copy(m.all()[i], c)
		}
	}
	return m
}

func (m *mentions) all() []ranges {
	return slices.Concat([]ranges{m.dports, m.sports, m.protocols}, m.headers[0][:], m.headers[1][:])
}

// values returns numbers from first to last, one for each kind that the ranges distinguish. One
// number is in each piece of a range, and one is outside all ranges. The function prefers the
// standard number.
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

// Numbers that nothing usually mentions.
const (
	otherPort      = 40_000
	otherProtocol  = 253 // for experiments
	echoRequest    = 8
	echoRequestV6  = 128
	firstDiscovery = 133 // ICMPv6 types of router and neighbour discovery
	lastDiscovery  = 137
)

// transports returns a packet of each kind that the mentions distinguish.
func (m *mentions) transports(v6 bool) (list []transport) {
	headers := &m.headers[0]
	if v6 {
		headers = &m.headers[1]
	}
	protocols := map[int]bool{int(policy.ProtocolTCP): true, int(policy.ProtocolUDP): true}
	for _, p := range m.protocols.values(otherProtocol, 1, 255) {
		protocols[p] = true
	}
	for h := range ruleset.HeaderField(ruleset.HeaderFields) {
		if p := h.Field(v6).Load().Protocol; p != 0 && len(headers[h]) > 0 {
			protocols[int(p)] = true
		}
	}
	for _, n := range slices.Sorted(maps.Keys(protocols)) {
		kinds := []transport{{protocol: policy.Protocol(n)}}
		for h := range ruleset.HeaderField(ruleset.HeaderFields) {
			f := h.Field(v6)
			if p := f.Load().Protocol; f != 0 && (p == 0 || p == uint8(n)) {
				kinds = each(kinds, headerValues(h, v6, headers[h]), func(t *transport, v uint16) { t.header[h] = v })
			}
		}
		if policy.Protocol(n).HasPorts() {
			dports, sports := m.dports.values(otherPort, 1, 1<<16-1), m.sports.values(otherPort, 1, 1<<16-1)
			kinds = each(kinds, dports, func(t *transport, v uint16) { t.dport = v })
			kinds = each(kinds, sports, func(t *transport, v uint16) { t.sport = v })
		}
		list = append(list, kinds...)
	}
	return list
}

// each returns the packets of kinds, once with each of the values.
func each(kinds []transport, values []int, set func(*transport, uint16)) (list []transport) {
	for _, t := range kinds {
		for _, v := range values {
			set(&t, uint16(v))
			list = append(list, t)
		}
	}
	return list
}

// named has the meanings of names: the ports with a name at any endpoint, the ports of services,
// and the header fields.
type named struct {
	headers  *headerNames
	ports    map[string]map[uint16]bool
	services map[policy.ServiceMatch]map[uint16]bool
}

// policyRules adds the values that rules in a namespace mention.
func (m *mentions) policyRules(rules []policy.Rule, namespace string, names *named) {
	header := func(h ruleset.HeaderField, first, last int) {
		for v6 := range m.headers {
			m.headers[v6][h].add(first, last)
		}
	}
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
		names.headers.mentioned(&r.HeaderMatch, header)
	}
}

// failsafes adds the values that failsafe ports mention.
func (m *mentions) failsafes(list []policy.Failsafe) {
	for _, f := range list {
		m.protocols.add(int(f.Protocol), int(f.Protocol))
		m.dports.add(int(f.Port), int(f.Port))
		m.sports.add(int(f.Port), int(f.Port))
	}
}

// of returns the ranges to which values of a field of the table are added.
func (m *mentions) of(f ruleset.Field) (list []ranges) {
	switch f {
	case ruleset.Dport, ruleset.CtOriginalDport:
		return []ranges{m.dports}
	case ruleset.Sport:
		return []ranges{m.sports}
	case ruleset.L4Proto:
		return []ranges{m.protocols}
	}
	for h := range ruleset.HeaderField(ruleset.HeaderFields) {
		for v6 := range m.headers {
			if h.Field(v6 == 1) == f {
				list = append(list, m.headers[v6][h])
			}
		}
	}
	return list
}

// number returns a value as a number.
func number(v ruleset.Value) (n int) {
	for _, b := range v {
		n = n<<8 | int(b)
	}
	return n
}
