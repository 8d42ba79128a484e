// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
)

// encodePolicies encodes an event of a set, policy or profile. It returns false for other events.
// If the object is nil, it sets no content.
func encodePolicies(c *cursor, m *wirepb.Event, e dataplane.Event) bool {
	switch e := e.(type) {
	case *dataplane.IPSetUpdate:
		m.Event = &wirepb.Event_IpSetUpdate{IpSetUpdate: &wirepb.IPSetUpdate{
			Id: string(e.ID), Type: encodeEnum(c, "type", e.Type, wirepb.IPSetType_IP_SET_TYPE_PORTS),
			Members: encodeMembers(c, "members", e.Type, e.Members),
		}}
	case *dataplane.IPSetDelta:
		m.Event = &wirepb.Event_IpSetDelta{IpSetDelta: &wirepb.IPSetDelta{
			Id: string(e.ID), Added: packMembers(c, "added", e.Added), Removed: packMembers(c, "removed", e.Removed),
		}}
	case *dataplane.IPSetRemove:
		m.Event = &wirepb.Event_IpSetRemove{IpSetRemove: string(e.ID)}
	case *dataplane.PolicyUpdate:
		if p := e.Policy; p != nil {
			m.Event = &wirepb.Event_PolicyUpdate{PolicyUpdate: &wirepb.PolicyUpdate{
				Key: EncodeKey(e.Key), Tier: p.Tier, Staged: p.Staged, Forward: p.Forward, Untracked: p.Untracked,
				PreDnat: p.PreDNAT, Ingress: encodeRules(c, "ingress", p.Ingress),
				Egress: encodeRules(c, "egress", p.Egress),
			}}
		}
	case *dataplane.PolicyRemove:
		m.Event = &wirepb.Event_PolicyRemove{PolicyRemove: EncodeKey(e.Key)}
	case *dataplane.ProfileUpdate:
		if p := e.Profile; p != nil {
			m.Event = &wirepb.Event_ProfileUpdate{ProfileUpdate: &wirepb.ProfileUpdate{
				Name: e.Name, Ingress: encodeRules(c, "ingress", p.Ingress),
				Egress: encodeRules(c, "egress", p.Egress),
			}}
		}
	case *dataplane.ProfileRemove:
		m.Event = &wirepb.Event_ProfileRemove{ProfileRemove: e.Name}
	default:
		return false
	}
	return true
}

// decodePolicies decodes an event of a set, policy or profile. It returns nil for other events.
func decodePolicies(c *cursor, m *wirepb.Event) dataplane.Event {
	switch m := m.GetEvent().(type) {
	case *wirepb.Event_IpSetUpdate:
		s := m.IpSetUpdate
		typ := decodeEnum[dataplane.IPSetType](c, "type", s.GetType(), wirepb.IPSetType_IP_SET_TYPE_PORTS)
		return &dataplane.IPSetUpdate{
			ID: identity[dataplane.IPSetID](c, "id", s.GetId()), Type: typ,
			Members: decodeMembers(c, "members", typ, s.GetMembers()),
		}
	case *wirepb.Event_IpSetDelta:
		s := m.IpSetDelta
		return &dataplane.IPSetDelta{
			ID:      identity[dataplane.IPSetID](c, "id", s.GetId()),
			Added:   unpackMembers(c, "added", s.GetAdded()),
			Removed: unpackMembers(c, "removed", s.GetRemoved()),
		}
	case *wirepb.Event_IpSetRemove:
		return &dataplane.IPSetRemove{ID: identity[dataplane.IPSetID](c, "id", m.IpSetRemove)}
	case *wirepb.Event_PolicyUpdate:
		p := m.PolicyUpdate
		return &dataplane.PolicyUpdate{Key: keyField(c, "key", p.GetKey()), Policy: &dataplane.Policy{
			Tier: p.GetTier(), Staged: p.GetStaged(), Forward: p.GetForward(), Untracked: p.GetUntracked(),
			PreDNAT: p.GetPreDnat(), Ingress: decodeList(c, "ingress", p.GetIngress(), decodeRule),
			Egress: decodeList(c, "egress", p.GetEgress(), decodeRule),
		}}
	case *wirepb.Event_PolicyRemove:
		return &dataplane.PolicyRemove{Key: keyField(c, "key", m.PolicyRemove)}
	case *wirepb.Event_ProfileUpdate:
		p := m.ProfileUpdate
		return &dataplane.ProfileUpdate{Name: identity[string](c, "name", p.GetName()), Profile: &dataplane.Profile{
			Ingress: decodeList(c, "ingress", p.GetIngress(), decodeRule),
			Egress:  decodeList(c, "egress", p.GetEgress(), decodeRule),
		}}
	case *wirepb.Event_ProfileRemove:
		return &dataplane.ProfileRemove{Name: identity[string](c, "name", m.ProfileRemove)}
	}
	return nil
}
