// SPDX-License-Identifier: Apache-2.0

package policy

import "encoding/json"

// Decode reads one resource from a JSON object with a "kind" member. Names of members
// are those of the field tags and must be written exactly so. A staged policy is one of
// kind "StagedPolicy"; there is no member "staged". A Block has no member "name".
//
// Unknown members and kinds, members given twice, null, values of another type, text after
// the object and values that a field cannot hold (port 0, a prefix with a zone) are
// errors, all of them at once in a *DecodeError. A list or map without entries is the same
// as none. The result is canonical (see Canonical) but not validated: call Validate, which finds what is
// missing or does not fit together.
func Decode(data []byte) (Resource, error) {
	root, err := parseJSON(data)
	if err != nil {
		return nil, &DecodeError{Key: peekKey(data), Problems: []Problem{{Msg: err.Error()}}}
	}
	d := &decoder{}
	r := d.resource(root)
	if len(d.problems) > 0 {
		return nil, &DecodeError{Key: peekKey(data), Problems: d.problems}
	}
	r.canonicalize()
	return r, nil
}

// peekKey reads what it can of an object's identity, for the error message.
func peekKey(data []byte) Key {
	var id struct {
		Kind                  Kind
		Namespace, Name, CIDR string
	}
	_ = json.Unmarshal(data, &id) // what could be read is all that is wanted
	if id.Kind == KindBlock {
		id.Name = id.CIDR
	}
	return Key{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
}

func (d *decoder) resource(n *jsonNode) Resource {
	if !d.want("", n, jsonObject) {
		return nil
	}
	var kind Kind
	for _, m := range n.members {
		if m.name == "kind" {
			text(d, &kind)("kind", m.value)
		}
	}
	r := newResource(kind)
	switch {
	case r != nil:
		members := r.members(d)
		members["kind"] = skip
		d.object("", n, members)
	case kind == "":
		d.add("kind", "required")
	default:
		d.add("kind", "unknown kind %q", clip(string(kind)))
	}
	return r
}

func (p *Policy) members(d *decoder) memberReaders {
	return memberReaders{
		"namespace":              text(d, &p.Namespace),
		"name":                   text(d, &p.Name),
		"tier":                   text(d, &p.Tier),
		"order":                  d.order(&p.Order),
		"selector":               text(d, &p.Selector),
		"namespaceSelector":      text(d, &p.NamespaceSelector),
		"serviceAccountSelector": text(d, &p.ServiceAccountSelector),
		"types":                  list(d, &p.Types, text[Type]),
		"ingress":                list(d, &p.Ingress, (*decoder).rule),
		"egress":                 list(d, &p.Egress, (*decoder).rule),
		"applyOnForward":         d.boolean(&p.ApplyOnForward),
		"doNotTrack":             d.boolean(&p.DoNotTrack),
		"preDNAT":                d.boolean(&p.PreDNAT),
		"performanceHints":       list(d, &p.PerformanceHints, text[PerformanceHint]),
		"staged": func(path string, _ *jsonNode) {
			d.add(path, "the kind says whether a policy is staged: Policy or StagedPolicy")
		},
	}
}

func (t *Tier) members(d *decoder) memberReaders {
	return memberReaders{
		"name":          text(d, &t.Name),
		"order":         d.order(&t.Order),
		"defaultAction": text(d, &t.DefaultAction),
	}
}

func (p *Profile) members(d *decoder) memberReaders {
	return memberReaders{
		"name":          text(d, &p.Name),
		"labelsToApply": d.texts(&p.LabelsToApply),
		"ingress":       list(d, &p.Ingress, (*decoder).rule),
		"egress":        list(d, &p.Egress, (*decoder).rule),
	}
}

func (n *NetworkSet) members(d *decoder) memberReaders {
	return memberReaders{
		"namespace": text(d, &n.Namespace),
		"name":      text(d, &n.Name),
		"labels":    d.texts(&n.Labels),
		"nets":      d.nets(&n.Nets),
	}
}

func (w *WorkloadEndpoint) members(d *decoder) memberReaders {
	return memberReaders{
		"namespace":                  text(d, &w.Namespace),
		"name":                       text(d, &w.Name),
		"node":                       text(d, &w.Node),
		"interface":                  text(d, &w.Interface),
		"addresses":                  list(d, &w.Addresses, (*decoder).address),
		"mac":                        text(d, &w.MAC),
		"labels":                     d.texts(&w.Labels),
		"ports":                      list(d, &w.Ports, (*decoder).endpointPort),
		"profiles":                   list(d, &w.Profiles, text[string]),
		"adminState":                 text(d, &w.AdminState),
		"ipNATs":                     list(d, &w.IPNATs, (*decoder).ipNAT),
		"allowSpoofedSourcePrefixes": d.nets(&w.AllowSpoofedSourcePrefixes),
	}
}

func (h *HostEndpoint) members(d *decoder) memberReaders {
	return memberReaders{
		"name":          text(d, &h.Name),
		"node":          text(d, &h.Node),
		"interfaceName": text(d, &h.InterfaceName),
		"expectedIPs":   list(d, &h.ExpectedIPs, (*decoder).address),
		"labels":        d.texts(&h.Labels),
		"ports":         list(d, &h.Ports, (*decoder).endpointPort),
		"profiles":      list(d, &h.Profiles, text[string]),
	}
}

func (p *IPPool) members(d *decoder) memberReaders {
	return memberReaders{
		"name":        text(d, &p.Name),
		"cidr":        d.net(&p.CIDR),
		"vxlanMode":   text(d, &p.VXLANMode),
		"ipipMode":    text(d, &p.IPIPMode),
		"natOutgoing": d.boolean(&p.NATOutgoing),
		"disabled":    d.boolean(&p.Disabled),
	}
}

func (b *Block) members(d *decoder) memberReaders {
	return memberReaders{
		"cidr":     d.net(&b.CIDR),
		"node":     text(d, &b.Node),
		"borrowed": list(d, &b.Borrowed, (*decoder).borrowedAddress),
	}
}

func (n *Node) members(d *decoder) memberReaders {
	return memberReaders{
		"name":                 text(d, &n.Name),
		"addresses":            list(d, &n.Addresses, (*decoder).interfaceAddress),
		"ipv4VXLANTunnelAddr":  d.address(&n.IPv4VXLANTunnelAddr),
		"ipv6VXLANTunnelAddr":  d.address(&n.IPv6VXLANTunnelAddr),
		"vxlanTunnelMACAddr":   text(d, &n.VXLANTunnelMACAddr),
		"vxlanTunnelMACAddrV6": text(d, &n.VXLANTunnelMACAddrV6),
		"labels":               d.texts(&n.Labels),
	}
}

func (s *ServiceBackends) members(d *decoder) memberReaders {
	return memberReaders{
		"namespace": text(d, &s.Namespace),
		"name":      text(d, &s.Name),
		"service":   text(d, &s.Service),
		"addresses": list(d, &s.Addresses, (*decoder).address),
		"ports":     list(d, &s.Ports, (*decoder).servicePort),
	}
}
