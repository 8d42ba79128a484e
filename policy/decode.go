// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Decode reads one resource from a JSON object with a "kind" member. Names of members
// are those of the field tags and must be written exactly so. A staged policy is one of
// kind "StagedPolicy"; there is no member "staged". A Block has no member "name".
//
// Unknown members and kinds, members given twice, null, values of another type, text after the
// object and values that a field cannot hold (port 0, an address or prefix with a zone) are errors,
// all of them at once in a *DecodeError. In a rule of a policy they close that rule instead, see
// Rule.Close and Policy.Doubts. A list or map without entries is the same as none. The result is
// canonical (see Canonical) but not validated: Validate and Update.Admit find what is missing or
// does not fit together.
func Decode(data []byte) (Resource, error) {
	root, err := parseJSON(data)
	if err != nil {
		return nil, &DecodeError{Key: peekKey(data), Problems: []Problem{{Msg: err.Error()}}}
	}
	d := &decoder{}
	r := d.resource(root)
	if len(d.problems) > 0 {
		if p, ok := r.(*Policy); ok && p.Doubts() != nil {
			for _, doubt := range p.Doubts().Problems {
				d.add(doubt.Field, "%s", doubt.Msg)
			}
		}
		return nil, &DecodeError{Key: peekKey(data), Problems: d.problems}
	}
	r.canonicalize()
	return r, nil
}

// peekKey reads what it can of an object's identity, for the error message. It goes by members that
// are written exactly and given once, as others would name another object, and is empty where the
// text is not JSON.
func peekKey(data []byte) Key {
	id := map[string]string{}
	for name, values := range topMembers(data) {
		var s string
		if len(values) == 1 && values[0][0] == '"' && json.Unmarshal(values[0], &s) == nil &&
			!strings.ContainsRune(s, utf8.RuneError) {
			id[name] = s
		}
	}
	k := Key{Kind: Kind(id["kind"]), Namespace: id["namespace"], Name: id["name"]}
	if k.Kind == KindBlock {
		k.Name = id["cidr"]
		if cidr, err := ParseNet(k.Name); err == nil {
			k.Name = cidr.String()
		}
	}
	return k
}

// topMembers returns the members of the object in a text, by name, with the values that each is
// given.
func topMembers(data []byte) map[string][]json.RawMessage {
	members := map[string][]json.RawMessage{}
	dec := json.NewDecoder(bytes.NewReader(data))
	if tok, err := dec.Token(); !json.Valid(data) || err != nil || tok != json.Delim('{') {
		return nil
	}
	for dec.More() {
		tok, _ := dec.Token() // the text is known to be well-formed
		name, _ := tok.(string)
		var value json.RawMessage
		_ = dec.Decode(&value)
		members[name] = append(members[name], value)
	}
	return members
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
	case kind == "" && len(d.problems) == 0:
		d.add("kind", "required")
	case kind == "":
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
		"ingress":                d.policyRules(&p.Ingress),
		"egress":                 d.policyRules(&p.Egress),
		"applyOnForward":         d.boolean(&p.ApplyOnForward),
		"doNotTrack":             d.boolean(&p.DoNotTrack),
		"preDNAT":                d.boolean(&p.PreDNAT),
		"performanceHints":       d.hints(&p.PerformanceHints),
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
