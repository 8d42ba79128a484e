// SPDX-License-Identifier: Apache-2.0

package match

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// errUnknownField is the error of a rule for which Known returns false.
var errUnknownField = errors.New("a match that the renderer does not know")

// isEmpty reports whether no field of the rule is set.
func isEmpty(rule *dataplane.Rule) bool { return rule.Equal(&dataplane.Rule{}) }

// Known reports whether Matcher.Alternatives supports every field that is set in the rule.
func Known(rule dataplane.Rule) bool {
	rule.ID, rule.Action, rule.IPVersion = "", "", 0
	rule.Protocol, rule.NotProtocol = 0, 0
	if _, known := headerMatches(&rule.HeaderMatch); rule.EqualHeader(&known) {
		rule.HeaderMatch = policy.HeaderMatch{}
	}
	for _, side := range [...]*dataplane.Match{&rule.Source, &rule.Destination} {
		ClearAddresses(side)
		side.Ports, side.NotPorts = nil, nil
		side.PortSets, side.NotPortSets = nil, nil
	}
	return isEmpty(&rule)
}

// ClearAddresses clears the conditions on the address of one side. The caller does this if policy
// is written as lookups (see docs/glossary.md). A map then finds the rules for an address, so these
// rules need no conditions on the address.
func ClearAddresses(side *dataplane.Match) {
	side.Nets, side.NotNets = nil, nil
	side.Sets, side.NotSets = nil, nil
}

// IsPlain reports whether the rule allows, denies or passes, and matches only protocol, destination
// ports and IP version. If policy is written as lookups (see docs/glossary.md), such rules are
// merged into lists of ports.
//
// A rule with a condition on an address is not plain. So the caller first removes the conditions on
// the address of the endpoint's peer, with ClearAddresses. With lookups, the rules do not need
// these conditions, because a map finds the rules by the peer's address.
func IsPlain(rule dataplane.Rule) bool {
	switch rule.Action {
	case policy.Allow, policy.Deny, policy.Pass:
	default:
		return false
	}
	rule.Protocol, rule.NotProtocol = 0, 0
	rule.Destination.Ports, rule.Destination.NotPorts = nil, nil
	return MatchesAll(rule)
}

// MatchesAll reports whether the rule matches every packet of its IP version.
func MatchesAll(rule dataplane.Rule) bool {
	rule.ID, rule.Action, rule.IPVersion = "", "", 0
	return isEmpty(&rule)
}

// ForAnyFamily reports whether the rule is the same for IPv4 and IPv6.
func ForAnyFamily(rule dataplane.Rule) bool {
	if rule.Protocol == policy.ProtocolICMP || rule.Protocol == policy.ProtocolICMPv6 { // S66
		return false
	}
	rule.ID, rule.Action = "", ""
	rule.Protocol, rule.NotProtocol = 0, 0
	for _, side := range [...]*dataplane.Match{&rule.Source, &rule.Destination} {
		side.Ports, side.NotPorts = nil, nil
	}
	return isEmpty(&rule)
}

// SetIDs returns the IDs of the IP sets to which a rule refers.
func SetIDs(rule *dataplane.Rule) (ids []dataplane.IPSetID) {
	for _, side := range [...]*dataplane.Match{&rule.Source, &rule.Destination} {
		ids = append(ids, side.Sets...)
		ids = append(ids, side.NotSets...)
		ids = append(ids, side.PortSets...)
		ids = append(ids, side.NotPortSets...)
	}
	return ids
}

// WriteKey appends to key a text by which rules can be compared: rules with the same text have the
// same effect. If plain is set, the text is shorter: it has only the action, the protocol and the
// destination ports. Set plain only if IsPlain returns true for all rules that are compared.
func (m *Merged) WriteKey(key *strings.Builder, plain bool) {
	ports := func(m *dataplane.Match) {
		for _, ports := range [...][]policy.Port{m.Ports, m.NotPorts} {
			key.WriteByte(';')
			for _, p := range ports {
				fmt.Fprintf(key, "%d-%d,", p.First, p.Last)
			}
		}
	}
	fmt.Fprintf(key, "%s %d!%d", m.Action, m.Protocol, m.NotProtocol)
	if plain {
		ports(&m.Destination)
		return
	}
	fmt.Fprintf(key, " %q ip %d", m.IDs, m.IPVersion)
	writeHeaderKey(key, &m.HeaderMatch)
	for _, side := range [...]*dataplane.Match{&m.Source, &m.Destination} {
		fmt.Fprintf(key, " %v %v %q %q %q %q",
			side.Nets, side.NotNets, side.Sets, side.NotSets, side.PortSets, side.NotPortSets)
		ports(side)
	}
}
