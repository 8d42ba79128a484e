// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

// EncodeKey returns the message of a key.
func EncodeKey(k policy.Key) *wirepb.Key {
	return &wirepb.Key{Kind: string(k.Kind), Namespace: k.Namespace, Name: k.Name}
}

// DecodeKey returns the key of a message; nil gives the zero Key.
func DecodeKey(m *wirepb.Key) policy.Key {
	return policy.Key{Kind: policy.Kind(m.GetKind()), Namespace: m.GetNamespace(), Name: m.GetName()}
}

// key decodes an identity.
func (d *decoder) key(name string, m *wirepb.Key) (k policy.Key) {
	d.in(name, func() { decodeKey(d, m, &k) })
	return k
}

func decodeKey(d *decoder, m *wirepb.Key, out *policy.Key) {
	*out = DecodeKey(m)
	if out.Kind == "" || out.Name == "" {
		d.fail("a key without kind or name")
	}
}

// encodeEndpoint encodes an event of an endpoint or host endpoint. It reports whether it is one.
func encodeEndpoint(m *wirepb.Event, event dataplane.Event) bool {
	switch event := event.(type) {
	case *dataplane.EndpointUpdate:
		e := event.Endpoint
		if e == nil {
			return false
		}
		message := &wirepb.EndpointUpdate{
			Key: EncodeKey(event.Key), Interface: e.Interface, Addresses: encodeAddresses(e.Addresses), Mac: e.MAC,
			Down: e.Down, Ingress: encodeTiers(e.Ingress), Egress: encodeTiers(e.Egress), Profiles: e.Profiles,
			AllowedSources: encodePrefixes(e.AllowedSources),
		}
		for _, n := range e.NATs {
			message.Floating = append(message.Floating, &wirepb.FloatingAddress{
				Internal: encodeAddress(n.InternalIP), External: encodeAddress(n.ExternalIP),
			})
		}
		m.Event = &wirepb.Event_EndpointUpdate{EndpointUpdate: message}
	case *dataplane.EndpointRemove:
		m.Event = &wirepb.Event_EndpointRemove{EndpointRemove: EncodeKey(event.Key)}
	case *dataplane.HostEndpointUpdate:
		h := event.HostEndpoint
		if h == nil {
			return false
		}
		m.Event = &wirepb.Event_HostEndpointUpdate{HostEndpointUpdate: &wirepb.HostEndpointUpdate{
			Key: EncodeKey(event.Key), Interface: h.Interface, Addresses: encodeAddresses(h.Addresses),
			Ingress: encodeTiers(h.Ingress), Egress: encodeTiers(h.Egress),
			ForwardIngress: encodeTiers(h.ForwardIngress), ForwardEgress: encodeTiers(h.ForwardEgress),
			UntrackedIngress: encodeTiers(h.UntrackedIngress), UntrackedEgress: encodeTiers(h.UntrackedEgress),
			PreDnatIngress: encodeTiers(h.PreDNATIngress), Profiles: h.Profiles,
		}}
	case *dataplane.HostEndpointRemove:
		m.Event = &wirepb.Event_HostEndpointRemove{HostEndpointRemove: EncodeKey(event.Key)}
	default:
		return false
	}
	return true
}

func decodeEndpoint(d *decoder, m *wirepb.Event) dataplane.Event {
	switch m := m.GetEvent().(type) {
	case *wirepb.Event_EndpointUpdate:
		e := m.EndpointUpdate
		return &dataplane.EndpointUpdate{Key: d.key("key", e.GetKey()), Endpoint: &dataplane.Endpoint{
			Interface: e.GetInterface(), Addresses: list(d, "addresses", e.GetAddresses(), decodeAddress),
			MAC: e.GetMac(), Down: e.GetDown(),
			Ingress:        list(d, "ingress", e.GetIngress(), decodeTier),
			Egress:         list(d, "egress", e.GetEgress(), decodeTier),
			Profiles:       list(d, "profiles", e.GetProfiles(), decodeName),
			NATs:           list(d, "floating", e.GetFloating(), decodeFloating),
			AllowedSources: list(d, "allowed_sources", e.GetAllowedSources(), decodePrefix),
		}}
	case *wirepb.Event_EndpointRemove:
		return &dataplane.EndpointRemove{Key: d.key("key", m.EndpointRemove)}
	case *wirepb.Event_HostEndpointUpdate:
		h := m.HostEndpointUpdate
		return &dataplane.HostEndpointUpdate{Key: d.key("key", h.GetKey()), HostEndpoint: &dataplane.HostEndpoint{
			Interface: h.GetInterface(), Addresses: list(d, "addresses", h.GetAddresses(), decodeAddress),
			Ingress:          list(d, "ingress", h.GetIngress(), decodeTier),
			Egress:           list(d, "egress", h.GetEgress(), decodeTier),
			ForwardIngress:   list(d, "forward_ingress", h.GetForwardIngress(), decodeTier),
			ForwardEgress:    list(d, "forward_egress", h.GetForwardEgress(), decodeTier),
			UntrackedIngress: list(d, "untracked_ingress", h.GetUntrackedIngress(), decodeTier),
			UntrackedEgress:  list(d, "untracked_egress", h.GetUntrackedEgress(), decodeTier),
			PreDNATIngress:   list(d, "pre_dnat_ingress", h.GetPreDnatIngress(), decodeTier),
			Profiles:         list(d, "profiles", h.GetProfiles(), decodeName),
		}}
	case *wirepb.Event_HostEndpointRemove:
		return &dataplane.HostEndpointRemove{Key: d.key("key", m.HostEndpointRemove)}
	}
	return nil
}

func encodeTiers(tiers []dataplane.TierPolicies) []*wirepb.TierPolicies {
	var out []*wirepb.TierPolicies
	for _, t := range tiers {
		m := &wirepb.TierPolicies{Tier: t.Tier, DefaultAction: encodeAction(t.DefaultAction)}
		keys := make([]wirepb.Key, len(t.Policies))
		m.Policies = make([]*wirepb.Key, len(keys))
		for i, k := range t.Policies {
			keys[i].Kind, keys[i].Namespace, keys[i].Name = string(k.Kind), k.Namespace, k.Name
			m.Policies[i] = &keys[i]
		}
		out = append(out, m)
	}
	return out
}

func decodeTier(d *decoder, m *wirepb.TierPolicies, t *dataplane.TierPolicies) {
	*t = dataplane.TierPolicies{
		Tier: m.GetTier(), DefaultAction: d.action("default_action", m.GetDefaultAction()),
		Policies: list(d, "policies", m.GetPolicies(), decodeKey),
	}
	if t.DefaultAction != policy.Deny && t.DefaultAction != policy.Pass {
		d.in("default_action", func() { d.fail("%s, want Deny or Pass", t.DefaultAction) })
	}
}

func decodeName(d *decoder, name string, out *string) {
	if name == "" {
		d.fail("empty")
	}
	*out = name
}

func decodeFloating(d *decoder, m *wirepb.FloatingAddress, n *policy.IPNAT) {
	n.InternalIP, n.ExternalIP = d.address("internal", m.GetInternal()), d.address("external", m.GetExternal())
}
