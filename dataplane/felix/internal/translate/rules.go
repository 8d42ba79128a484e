// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
	"github.com/wayleave/wayleave/policy"
)

// rules translates the rules of one direction. problems has an error for each rule that a message
// cannot express.
func rules(direction string, list []dataplane.Rule) (out []*felixpb.Rule, problems []error) {
	for i := range list {
		if matchesNothing(&list[i]) {
			continue
		}
		r, missing := rule(&list[i])
		if len(missing) > 0 {
			problems = append(problems, fmt.Errorf("%s rule %d (%s): Felix has no field for %s",
				direction, i, &list[i], strings.Join(missing, ", ")))
			if r.Action != denyAction && r.Action != passAction {
				continue
			}
			r.Action = denyAction
		}
		out = append(out, r)
	}
	return out, problems
}

// The actions of rules.
const (
	allowAction = "allow"
	denyAction  = "deny"
	passAction  = "next-tier"
	logAction   = "log"
)

// rule translates a rule. missing names the fields that the message lacks: the message then matches
// all packets that the rule matches, and more.
func rule(r *dataplane.Rule) (out *felixpb.Rule, missing []string) {
	out = &felixpb.Rule{
		Action: action(r.Action), RuleId: r.ID,
		Protocol: protocol(r.Protocol), NotProtocol: protocol(r.NotProtocol),
		SrcNet: text(r.Source.Nets), NotSrcNet: text(r.Source.NotNets),
		SrcIpSetIds: ids(r.Source.Sets), NotSrcIpSetIds: ids(r.Source.NotSets),
		SrcPorts: ports(r.Source.Ports), NotSrcPorts: ports(r.Source.NotPorts),
		SrcNamedPortIpSetIds: ids(r.Source.PortSets), NotSrcNamedPortIpSetIds: ids(r.Source.NotPortSets),
		DstNet: text(r.Destination.Nets), NotDstNet: text(r.Destination.NotNets),
		DstIpSetIds: ids(r.Destination.Sets), NotDstIpSetIds: ids(r.Destination.NotSets),
		DstPorts: ports(r.Destination.Ports), NotDstPorts: ports(r.Destination.NotPorts),
		NotDstNamedPortIpSetIds: ids(r.Destination.NotPortSets),
	}
	if service := r.Destination.PortSets; len(service) == 1 && len(out.DstPorts) == 0 &&
		strings.HasPrefix(string(service[0]), "v:") {
		out.DstIpPortSetIds = ids(service)
	} else {
		out.DstNamedPortIpSetIds = ids(service)
	}
	var known bool
	if out.IpVersion, known = version(r); !known {
		missing = append(missing, "the IP version")
	}
	if len(r.DSCP)+len(r.NotDSCP) > 0 {
		missing = append(missing, "DSCP")
	}
	if err := icmp(out, &r.HeaderMatch); err != nil {
		missing = append(missing, err.Error())
	}
	if out.Action == "" {
		out.Action = denyAction
		missing = append(missing, "the action")
	}
	return out, missing
}

// action returns Felix's name of an action, or "" for an unknown one.
func action(a policy.Action) string {
	switch a {
	case policy.Allow:
		return allowAction
	case policy.Deny:
		return denyAction
	case policy.Pass:
		return passAction
	case policy.Log:
		return logAction
	}
	return ""
}

// version returns the IP version of a rule. The protocols ICMP and ICMPv6 imply one. It returns
// false if the messages have no such version.
func version(r *dataplane.Rule) (felixpb.IPVersion, bool) {
	v := cmp.Or(r.IPVersion, familyOf(r.Protocol))
	if _, known := felixpb.IPVersion_name[int32(v)]; !known {
		return felixpb.IPVersion_ANY, false
	}
	return felixpb.IPVersion(v), true
}

// familyOf returns the IP version of a protocol, or 0 if both have it.
func familyOf(p policy.Protocol) int {
	switch p {
	case policy.ProtocolICMP:
		return 4
	case policy.ProtocolICMPv6:
		return 6
	}
	return 0
}

// matchesNothing reports whether a rule has a protocol that its IP version does not have.
func matchesNothing(r *dataplane.Rule) bool {
	family := familyOf(r.Protocol)
	return family != 0 && r.IPVersion != 0 && r.IPVersion != family
}

// protocol returns a protocol by name if it has one, otherwise by number. Zero returns nil.
func protocol(p policy.Protocol) *felixpb.Protocol {
	switch name := strings.ToLower(p.String()); {
	case p == 0:
		return nil
	case name[0] > '9':
		return &felixpb.Protocol{NumberOrName: &felixpb.Protocol_Name{Name: name}}
	default:
		return &felixpb.Protocol{NumberOrName: &felixpb.Protocol_Number{Number: int32(p)}}
	}
}

var errNoType = errors.New("an ICMP code without a type")

// icmp sets the fields of ICMP.
func icmp(out *felixpb.Rule, m *policy.HeaderMatch) error {
	for _, i := range []*policy.ICMP{m.ICMP, m.NotICMP} {
		if i != nil && i.Type == nil {
			return errNoType
		}
	}
	switch i := m.ICMP; {
	case i == nil:
	case i.Code == nil:
		out.Icmp = &felixpb.Rule_IcmpType{IcmpType: int32(*i.Type)}
	default:
		out.Icmp = &felixpb.Rule_IcmpTypeCode{IcmpTypeCode: typeAndCode(i)}
	}
	switch i := m.NotICMP; {
	case i == nil:
	case i.Code == nil:
		out.NotIcmp = &felixpb.Rule_NotIcmpType{NotIcmpType: int32(*i.Type)}
	default:
		out.NotIcmp = &felixpb.Rule_NotIcmpTypeCode{NotIcmpTypeCode: typeAndCode(i)}
	}
	return nil
}

func typeAndCode(i *policy.ICMP) *felixpb.IcmpTypeAndCode {
	return &felixpb.IcmpTypeAndCode{Type: int32(*i.Type), Code: int32(*i.Code)}
}

func ports(list []policy.Port) (out []*felixpb.PortRange) {
	for _, p := range list {
		out = append(out, &felixpb.PortRange{First: int32(p.First), Last: int32(p.Last)})
	}
	return out
}

func ids(list []dataplane.IPSetID) (out []string) {
	for _, id := range list {
		out = append(out, string(id))
	}
	return out
}
