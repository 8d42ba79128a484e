// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// Rule is a policy.Rule with its selectors and named ports resolved. All fields must
// match; a zero field means no limit.
type Rule struct {
	// ID is stable while the rule's content is: see policy.RuleIDs.
	ID string
	// Action is one of policy.Allow, Deny, Pass and Log.
	Action policy.Action
	// IPVersion is 4, 6 or 0 for both.
	IPVersion int
	// Protocol and NotProtocol; ICMP implies IPv4 and ICMPv6 implies IPv6.
	Protocol, NotProtocol policy.Protocol
	// HeaderMatch has the fields that match the packet's headers.
	policy.HeaderMatch
	// Source and Destination of the packet.
	Source, Destination Match
}

// Equal reports whether the two rules are the same, ID included. Lists are compared in order; nil
// and empty are the same.
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
	// Nets: the address is in one of these. Non-empty, but with no prefix of the packet's
	// family: the rule does not match.
	Nets []netip.Prefix
	// NotNets: the address is in none of these.
	NotNets []netip.Prefix
	// Sets, of type IPSetNets: the address is in every one of these.
	Sets []IPSetID
	// NotSets, of type IPSetNets: the address is in none of these.
	NotSets []IPSetID
	// Ports and PortSets (of type IPSetPorts): the packet's port is in one of the ranges, or its
	// (address, protocol, port), all three together, in one of the sets. Ports have no names. The
	// set of a service is alone here.
	Ports    []policy.Port
	PortSets []IPSetID
	// NotPorts and NotPortSets: it is in none of the ranges and in none of the sets.
	NotPorts    []policy.Port
	NotPortSets []IPSetID
}

// Equal reports whether the two sides match the same. Lists are compared in order; nil and
// empty are the same.
func (m *Match) Equal(o *Match) bool {
	return slices.Equal(m.Nets, o.Nets) && slices.Equal(m.NotNets, o.NotNets) &&
		slices.Equal(m.Sets, o.Sets) && slices.Equal(m.NotSets, o.NotSets) &&
		slices.Equal(m.Ports, o.Ports) && slices.Equal(m.PortSets, o.PortSets) &&
		slices.Equal(m.NotPorts, o.NotPorts) && slices.Equal(m.NotPortSets, o.NotPortSets)
}

// String returns what the side must match, as in "s:abc !s:def nets 10.0.0.0/8 ports 80,p:xyz
// !ports 8000-8999", or nothing if there is no limit.
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
