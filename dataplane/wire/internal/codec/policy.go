// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"math"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

// encodePolicy encodes an event of a set, policy or profile. It reports whether it is one.
func encodePolicy(m *wirepb.Event, e dataplane.Event) bool {
	switch e := e.(type) {
	case *dataplane.IPSetUpdate:
		m.Event = &wirepb.Event_IpSetUpdate{IpSetUpdate: &wirepb.IPSetUpdate{
			Id: string(e.ID), Type: wirepb.IPSetType(e.Type) + 1, Members: encodeMembers(e.Members),
		}}
	case *dataplane.IPSetDelta:
		m.Event = &wirepb.Event_IpSetDelta{IpSetDelta: &wirepb.IPSetDelta{
			Id: string(e.ID), Added: encodeMembers(e.Added), Removed: encodeMembers(e.Removed),
		}}
	case *dataplane.IPSetRemove:
		m.Event = &wirepb.Event_IpSetRemove{IpSetRemove: string(e.ID)}
	case *dataplane.PolicyUpdate:
		p := e.Policy
		if p == nil {
			return false
		}
		m.Event = &wirepb.Event_PolicyUpdate{PolicyUpdate: &wirepb.PolicyUpdate{
			Key: EncodeKey(e.Key), Tier: p.Tier, Staged: p.Staged, Forward: p.Forward, Untracked: p.Untracked,
			PreDnat: p.PreDNAT, Ingress: encodeRules(p.Ingress), Egress: encodeRules(p.Egress),
		}}
	case *dataplane.PolicyRemove:
		m.Event = &wirepb.Event_PolicyRemove{PolicyRemove: EncodeKey(e.Key)}
	case *dataplane.ProfileUpdate:
		if e.Profile == nil {
			return false
		}
		m.Event = &wirepb.Event_ProfileUpdate{ProfileUpdate: &wirepb.ProfileUpdate{
			Name: e.Name, Ingress: encodeRules(e.Profile.Ingress), Egress: encodeRules(e.Profile.Egress),
		}}
	case *dataplane.ProfileRemove:
		m.Event = &wirepb.Event_ProfileRemove{ProfileRemove: e.Name}
	default:
		return false
	}
	return true
}

func decodePolicy(d *decoder, m *wirepb.Event) dataplane.Event {
	switch m := m.GetEvent().(type) {
	case *wirepb.Event_IpSetUpdate:
		s := m.IpSetUpdate
		return &dataplane.IPSetUpdate{
			ID:      dataplane.IPSetID(d.text("id", s.GetId())),
			Type:    enum[dataplane.IPSetType](d, "type", s.GetType(), wirepb.IPSetType_IP_SET_TYPE_PORTS),
			Members: d.members("members", s.GetMembers()),
		}
	case *wirepb.Event_IpSetDelta:
		s := m.IpSetDelta
		return &dataplane.IPSetDelta{
			ID:    dataplane.IPSetID(d.text("id", s.GetId())),
			Added: d.members("added", s.GetAdded()), Removed: d.members("removed", s.GetRemoved()),
		}
	case *wirepb.Event_IpSetRemove:
		return &dataplane.IPSetRemove{ID: dataplane.IPSetID(d.text("id", m.IpSetRemove))}
	case *wirepb.Event_PolicyUpdate:
		p := m.PolicyUpdate
		return &dataplane.PolicyUpdate{Key: d.key("key", p.GetKey()), Policy: &dataplane.Policy{
			Tier: p.GetTier(), Staged: p.GetStaged(), Forward: p.GetForward(), Untracked: p.GetUntracked(),
			PreDNAT: p.GetPreDnat(), Ingress: list(d, "ingress", p.GetIngress(), decodeRule),
			Egress: list(d, "egress", p.GetEgress(), decodeRule),
		}}
	case *wirepb.Event_PolicyRemove:
		return &dataplane.PolicyRemove{Key: d.key("key", m.PolicyRemove)}
	case *wirepb.Event_ProfileUpdate:
		p := m.ProfileUpdate
		return &dataplane.ProfileUpdate{Name: d.text("name", p.GetName()), Profile: &dataplane.Profile{
			Ingress: list(d, "ingress", p.GetIngress(), decodeRule),
			Egress:  list(d, "egress", p.GetEgress(), decodeRule),
		}}
	case *wirepb.Event_ProfileRemove:
		return &dataplane.ProfileRemove{Name: d.text("name", m.ProfileRemove)}
	}
	return nil
}

func protocolOf(n uint8) policy.Protocol { return policy.Protocol(n) }

// actions returns the actions in the order of their numbers, from 1.
func actions() []policy.Action {
	return []policy.Action{policy.Allow, policy.Deny, policy.Pass, policy.Log}
}

func encodeAction(a policy.Action) wirepb.Action {
	return wirepb.Action(slices.Index(actions(), a) + 1)
}

func (d *decoder) action(name string, a wirepb.Action) policy.Action {
	if a < 1 || int(a) > len(actions()) {
		d.in(name, func() { d.fail("unknown value %d", int32(a)) })
		return policy.Deny
	}
	return actions()[a-1]
}

func encodeRules(rules []dataplane.Rule) []*wirepb.Rule {
	if len(rules) == 0 {
		return nil
	}
	messages, out := make([]wirepb.Rule, len(rules)), make([]*wirepb.Rule, len(rules))
	for i := range rules {
		r, m := &rules[i], &messages[i]
		m.Id, m.Action, m.IpVersion = r.ID, encodeAction(r.Action), uint32(r.IPVersion)
		m.Protocol, m.NotProtocol = uint32(r.Protocol), uint32(r.NotProtocol)
		m.Icmp, m.NotIcmp = encodeICMP(r.ICMP), encodeICMP(r.NotICMP)
		m.Dscp, m.NotDscp = encodeDSCP(r.DSCP), encodeDSCP(r.NotDSCP)
		m.Source, m.Destination = encodeMatch(&r.Source), encodeMatch(&r.Destination)
		out[i] = m
	}
	return out
}

func decodeRule(d *decoder, m *wirepb.Rule, r *dataplane.Rule) {
	*r = dataplane.Rule{
		ID: m.GetId(), Action: d.action("action", m.GetAction()),
		Protocol:    number[policy.Protocol](d, "protocol", m.GetProtocol(), math.MaxUint8),
		NotProtocol: number[policy.Protocol](d, "not_protocol", m.GetNotProtocol(), math.MaxUint8),
	}
	switch v := m.GetIpVersion(); v {
	case 0, 4, 6:
		r.IPVersion = int(v)
	default:
		d.in("ip_version", func() { d.fail("%d, want 4, 6 or none", v) })
	}
	r.ICMP, r.NotICMP = d.icmp("icmp", m.GetIcmp()), d.icmp("not_icmp", m.GetNotIcmp())
	r.DSCP, r.NotDSCP = d.dscp("dscp", m.GetDscp()), d.dscp("not_dscp", m.GetNotDscp())
	d.match("source", m.GetSource(), &r.Source)
	d.match("destination", m.GetDestination(), &r.Destination)
}

func encodeICMP(i *policy.ICMP) *wirepb.ICMP {
	if i == nil || i.Type == nil {
		return nil
	}
	m := &wirepb.ICMP{Type: uint32(*i.Type)}
	if i.Code != nil {
		code := uint32(*i.Code)
		m.Code = &code
	}
	return m
}

func (d *decoder) icmp(name string, m *wirepb.ICMP) *policy.ICMP {
	if m == nil {
		return nil
	}
	i := &policy.ICMP{}
	d.in(name, func() {
		typ := number[int](d, "type", m.GetType(), math.MaxUint8)
		i.Type = &typ
		if m.Code != nil {
			code := number[int](d, "code", m.GetCode(), math.MaxUint8)
			i.Code = &code
		}
	})
	return i
}

func encodeDSCP(list []policy.DSCP) []byte {
	if len(list) == 0 {
		return nil
	}
	out := make([]byte, len(list))
	for i, v := range list {
		out[i] = byte(v)
	}
	return out
}

func (d *decoder) dscp(name string, data []byte) []policy.DSCP {
	var out []policy.DSCP
	for _, v := range data {
		out = append(out, number[policy.DSCP](d, name, uint32(v), uint32(policy.MaxDSCP)))
	}
	return out
}

// encodeMatch returns nil for a side without limits.
func encodeMatch(s *dataplane.Match) *wirepb.Match {
	m := &wirepb.Match{
		Nets: encodePrefixes(s.Nets), NotNets: encodePrefixes(s.NotNets),
		Sets: encodeIDs(s.Sets), NotSets: encodeIDs(s.NotSets),
		Ports: encodePorts(s.Ports), PortSets: encodeIDs(s.PortSets),
		NotPorts: encodePorts(s.NotPorts), NotPortSets: encodeIDs(s.NotPortSets),
	}
	if len(m.Nets)+len(m.NotNets)+len(m.Sets)+len(m.NotSets)+len(m.Ports)+len(m.PortSets)+len(m.NotPorts)+
		len(m.NotPortSets) == 0 {
		return nil
	}
	return m
}

func (d *decoder) match(name string, m *wirepb.Match, s *dataplane.Match) {
	if m == nil {
		return
	}
	d.in(name, func() {
		s.Nets = list(d, "nets", m.GetNets(), decodePrefix)
		s.NotNets = list(d, "not_nets", m.GetNotNets(), decodePrefix)
		s.Sets = list(d, "sets", m.GetSets(), decodeID)
		s.NotSets = list(d, "not_sets", m.GetNotSets(), decodeID)
		s.Ports = list(d, "ports", m.GetPorts(), decodePort)
		s.PortSets = list(d, "port_sets", m.GetPortSets(), decodeID)
		s.NotPorts = list(d, "not_ports", m.GetNotPorts(), decodePort)
		s.NotPortSets = list(d, "not_port_sets", m.GetNotPortSets(), decodeID)
	})
}

func encodeIDs(ids []dataplane.IPSetID) []string {
	if len(ids) == 0 {
		return nil
	}
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

func decodeID(d *decoder, id string, out *dataplane.IPSetID) {
	if id == "" {
		d.fail("empty")
	}
	*out = dataplane.IPSetID(id)
}

func encodePorts(ports []policy.Port) []*wirepb.PortRange {
	if len(ports) == 0 {
		return nil
	}
	out := make([]*wirepb.PortRange, len(ports))
	for i, p := range ports {
		out[i] = &wirepb.PortRange{First: uint32(p.First), Last: uint32(p.Last)}
	}
	return out
}

func decodePort(d *decoder, m *wirepb.PortRange, out *policy.Port) {
	out.First = number[uint16](d, "first", m.GetFirst(), math.MaxUint16)
	out.Last = number[uint16](d, "last", m.GetLast(), math.MaxUint16)
	if out.First > out.Last {
		d.fail("ends at %d, before its beginning %d", out.Last, out.First)
	}
}
