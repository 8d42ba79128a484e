// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// Rule is a policy.Rule in which IP sets have replaced the selectors, named ports and services. A
// packet matches the rule if it matches all fields. A zero field matches every packet.
type Rule struct {
	// ID identifies the rule. It changes only if the content of the rule changes: see
	// policy.RuleIDs.
	ID string
	// Action is one of policy.Allow, Deny, Pass and Log.
	Action policy.Action
	// IPVersion is 4, 6 or 0 for both.
	IPVersion int
	// Protocol matches packets of this protocol. NotProtocol matches packets of all other
	// protocols. ICMP implies IPv4, and ICMPv6 implies IPv6.
	Protocol, NotProtocol policy.Protocol
	// HeaderMatch has the fields that match values in the packet's headers, such as DSCP or ICMP
	// types.
	policy.HeaderMatch
	// Source and Destination match the two sides of the packet.
	Source, Destination Match
}

// Equal reports whether the two rules are the same, with the same ID. The order of lists counts.
// Nil and empty lists are the same.
func (r *Rule) Equal(o *Rule) bool {
	return r.ID == o.ID && r.Action == o.Action && r.IPVersion == o.IPVersion &&
		r.Protocol == o.Protocol && r.NotProtocol == o.NotProtocol &&
		r.EqualHeader(&o.HeaderMatch) &&
		r.Source.Equal(&o.Source) && r.Destination.Equal(&o.Destination)
}

// String returns the rule in one line, as in "allow ipv4 tcp src s:abc !nets 10.0.0.0/8 dst
// ports 80,p:xyz". An exclamation mark negates what follows. The ID is left out.
func (r *Rule) String() string {
	w := words{strings.ToLower(string(r.Action))}
	w.addIf(r.IPVersion != 0, "ipv"+strconv.Itoa(r.IPVersion))
	w.addIf(r.Protocol != 0, protocol(r.Protocol))
	w.addIf(r.NotProtocol != 0, "!"+protocol(r.NotProtocol))
	if s := r.HeaderString(); s != "" {
		w.add(s)
	}
	if s := r.Source.String(); s != "" {
		w.add("src " + s)
	}
	if s := r.Destination.String(); s != "" {
		w.add("dst " + s)
	}
	return w.String()
}

// Match is one side of a rule, source or destination.
type Match struct {
	// Nets: the address is in one of these prefixes. If the list has prefixes, but none of the
	// packet's family, the rule does not match.
	Nets []netip.Prefix
	// NotNets: the address is in none of these prefixes.
	NotNets []netip.Prefix
	// Sets are of type IPSetNets: the address is in each of them.
	Sets []IPSetID
	// NotSets are of type IPSetNets: the address is in none of them.
	NotSets []IPSetID
	// Ports and PortSets: the packet's port is in a range of Ports, or its address, protocol and
	// port together are in one of PortSets. The sets are of type IPSetPorts. If PortSets has the
	// set of a service, it has no other set, and Ports is empty.
	Ports    []policy.Port
	PortSets []IPSetID
	// NotPorts and NotPortSets: the packet's port is in none of the ranges, and its address,
	// protocol and port together are in none of the sets.
	NotPorts    []policy.Port
	NotPortSets []IPSetID
}

// Equal reports whether m and o have the same conditions. The order of lists counts. Nil and empty
// lists are the same.
func (m *Match) Equal(o *Match) bool {
	return slices.Equal(m.Nets, o.Nets) && slices.Equal(m.NotNets, o.NotNets) &&
		slices.Equal(m.Sets, o.Sets) && slices.Equal(m.NotSets, o.NotSets) &&
		slices.Equal(m.Ports, o.Ports) && slices.Equal(m.PortSets, o.PortSets) &&
		slices.Equal(m.NotPorts, o.NotPorts) && slices.Equal(m.NotPortSets, o.NotPortSets)
}

// String returns the conditions of the Match, as in "s:abc !s:def nets 10.0.0.0/8 ports 80,p:xyz
// !ports 8000-8999". It returns "" if every packet matches.
func (m *Match) String() string {
	var w words
	for _, id := range m.Sets {
		w.add(string(id))
	}
	for _, id := range m.NotSets {
		w.add("!" + string(id))
	}
	w.addIf(len(m.Nets) > 0, "nets "+join(m.Nets, ","))
	w.addIf(len(m.NotNets) > 0, "!nets "+join(m.NotNets, ","))
	if s := ports(m.Ports, m.PortSets); s != "" {
		w.add("ports " + s)
	}
	if s := ports(m.NotPorts, m.NotPortSets); s != "" {
		w.add("!ports " + s)
	}
	return w.String()
}

func equalRules(a, b []Rule) bool {
	return slices.EqualFunc(a, b, func(x, y Rule) bool { return x.Equal(&y) })
}

func rules(ingress, egress []Rule) string {
	var parts []string
	for i := range ingress {
		parts = append(parts, "ingress "+ingress[i].String())
	}
	for i := range egress {
		parts = append(parts, "egress "+egress[i].String())
	}
	if parts == nil {
		return ": no rules"
	}
	return ": " + strings.Join(parts, "; ")
}

func ports(list []policy.Port, sets []IPSetID) string {
	var parts []string
	for _, p := range list {
		parts = append(parts, port(p))
	}
	for _, id := range sets {
		parts = append(parts, string(id))
	}
	return strings.Join(parts, ",")
}

func port(p policy.Port) string {
	if p.First == p.Last {
		return strconv.Itoa(int(p.First))
	}
	return strconv.Itoa(int(p.First)) + "-" + strconv.Itoa(int(p.Last))
}
