// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

// encodeEndpoints encodes an event of an endpoint or host endpoint. It returns false for other
// events. If the object is nil, it sets no content.
func encodeEndpoints(c *cursor, m *wirepb.Event, e dataplane.Event) bool {
	switch e := e.(type) {
	case *dataplane.EndpointUpdate:
		if e.Endpoint != nil {
			m.Event = &wirepb.Event_EndpointUpdate{EndpointUpdate: encodeEndpoint(c, e.Key, e.Endpoint)}
		}
	case *dataplane.EndpointRemove:
		m.Event = &wirepb.Event_EndpointRemove{EndpointRemove: EncodeKey(e.Key)}
	case *dataplane.HostEndpointUpdate:
		if e.HostEndpoint != nil {
			m.Event = &wirepb.Event_HostEndpointUpdate{
				HostEndpointUpdate: encodeHostEndpoint(c, e.Key, e.HostEndpoint),
			}
		}
	case *dataplane.HostEndpointRemove:
		m.Event = &wirepb.Event_HostEndpointRemove{HostEndpointRemove: EncodeKey(e.Key)}
	default:
		return false
	}
	return true
}

// decodeEndpoints decodes an event of an endpoint or host endpoint. It returns nil for other
// events.
func decodeEndpoints(c *cursor, m *wirepb.Event) dataplane.Event {
	switch m := m.GetEvent().(type) {
	case *wirepb.Event_EndpointUpdate:
		e := m.EndpointUpdate
		return &dataplane.EndpointUpdate{Key: keyField(c, "key", e.GetKey()), Endpoint: decodeEndpoint(c, e)}
	case *wirepb.Event_EndpointRemove:
		return &dataplane.EndpointRemove{Key: keyField(c, "key", m.EndpointRemove)}
	case *wirepb.Event_HostEndpointUpdate:
		h := m.HostEndpointUpdate
		return &dataplane.HostEndpointUpdate{
			Key: keyField(c, "key", h.GetKey()), HostEndpoint: decodeHostEndpoint(c, h),
		}
	case *wirepb.Event_HostEndpointRemove:
		return &dataplane.HostEndpointRemove{Key: keyField(c, "key", m.HostEndpointRemove)}
	}
	return nil
}

func encodeEndpoint(c *cursor, key policy.Key, e *dataplane.Endpoint) *wirepb.EndpointUpdate {
	return &wirepb.EndpointUpdate{
		Key: EncodeKey(key), Interface: e.Interface, Addresses: encodeAddresses(c, "addresses", e.Addresses),
		Mac: e.MAC, Down: e.Down,
		Ingress: encodeTiers(c, "ingress", e.Ingress), Egress: encodeTiers(c, "egress", e.Egress),
		Profiles: e.Profiles, Floating: encodeFloating(c, "floating", e.NATs),
		AllowedSources: encodePrefixes(c, "allowed_sources", e.AllowedSources),
	}
}

func decodeEndpoint(c *cursor, e *wirepb.EndpointUpdate) *dataplane.Endpoint {
	return &dataplane.Endpoint{
		Interface: e.GetInterface(), Addresses: decodeList(c, "addresses", e.GetAddresses(), decodeAddress),
		MAC: e.GetMac(), Down: e.GetDown(),
		Ingress:        decodeList(c, "ingress", e.GetIngress(), decodeTier),
		Egress:         decodeList(c, "egress", e.GetEgress(), decodeTier),
		Profiles:       decodeList(c, "profiles", e.GetProfiles(), decodeName[string]),
		NATs:           decodeList(c, "floating", e.GetFloating(), decodeFloating),
		AllowedSources: decodeList(c, "allowed_sources", e.GetAllowedSources(), decodePrefix),
	}
}

func encodeHostEndpoint(c *cursor, key policy.Key, h *dataplane.HostEndpoint) *wirepb.HostEndpointUpdate {
	return &wirepb.HostEndpointUpdate{
		Key: EncodeKey(key), Interface: h.Interface, Addresses: encodeAddresses(c, "addresses", h.Addresses),
		Ingress: encodeTiers(c, "ingress", h.Ingress), Egress: encodeTiers(c, "egress", h.Egress),
		ForwardIngress:   encodeTiers(c, "forward_ingress", h.ForwardIngress),
		ForwardEgress:    encodeTiers(c, "forward_egress", h.ForwardEgress),
		UntrackedIngress: encodeTiers(c, "untracked_ingress", h.UntrackedIngress),
		UntrackedEgress:  encodeTiers(c, "untracked_egress", h.UntrackedEgress),
		PreDnatIngress:   encodeTiers(c, "pre_dnat_ingress", h.PreDNATIngress),
		Profiles:         h.Profiles,
	}
}

func decodeHostEndpoint(c *cursor, h *wirepb.HostEndpointUpdate) *dataplane.HostEndpoint {
	return &dataplane.HostEndpoint{
		Interface: h.GetInterface(), Addresses: decodeList(c, "addresses", h.GetAddresses(), decodeAddress),
		Ingress:          decodeList(c, "ingress", h.GetIngress(), decodeTier),
		Egress:           decodeList(c, "egress", h.GetEgress(), decodeTier),
		ForwardIngress:   decodeList(c, "forward_ingress", h.GetForwardIngress(), decodeTier),
		ForwardEgress:    decodeList(c, "forward_egress", h.GetForwardEgress(), decodeTier),
		UntrackedIngress: decodeList(c, "untracked_ingress", h.GetUntrackedIngress(), decodeTier),
		UntrackedEgress:  decodeList(c, "untracked_egress", h.GetUntrackedEgress(), decodeTier),
		PreDNATIngress:   decodeList(c, "pre_dnat_ingress", h.GetPreDnatIngress(), decodeTier),
		Profiles:         decodeList(c, "profiles", h.GetProfiles(), decodeName[string]),
	}
}

// encodeTiers encodes a list. It makes one allocation for all keys of a tier.
func encodeTiers(c *cursor, name string, tiers []dataplane.TierPolicies) []*wirepb.TierPolicies {
	if len(tiers) == 0 {
		return nil
	}
	out := make([]*wirepb.TierPolicies, len(tiers))
	for i, t := range tiers {
		c.enterItem(name, i)
		out[i] = &wirepb.TierPolicies{
			Tier: t.Tier, DefaultAction: encodeAction(c, "default_action", t.DefaultAction),
			Policies: encodeKeys(t.Policies),
		}
		c.leave()
	}
	return out
}

func decodeTier(c *cursor, m *wirepb.TierPolicies, t *dataplane.TierPolicies) {
	t.Tier, t.DefaultAction = m.GetTier(), decodeAction(c, "default_action", m.GetDefaultAction())
	if t.DefaultAction != policy.Deny && t.DefaultAction != policy.Pass {
		c.failIn("default_action", "%s, want Deny or Pass", t.DefaultAction)
	}
	t.Policies = decodeList(c, "policies", m.GetPolicies(), decodeKey)
}

func encodeFloating(c *cursor, name string, nats []policy.IPNAT) []*wirepb.FloatingAddress {
	if len(nats) == 0 {
		return nil
	}
	out := make([]*wirepb.FloatingAddress, len(nats))
	for i, n := range nats {
		c.enterItem(name, i)
		out[i] = &wirepb.FloatingAddress{
			Internal: encodeAddress(c, "internal", n.InternalIP), External: encodeAddress(c, "external", n.ExternalIP),
		}
		c.leave()
	}
	return out
}

func decodeFloating(c *cursor, m *wirepb.FloatingAddress, n *policy.IPNAT) {
	n.InternalIP = addressField(c, "internal", m.GetInternal())
	n.ExternalIP = addressField(c, "external", m.GetExternal())
}
