// SPDX-License-Identifier: Apache-2.0

package policy

import "encoding/json"

// Decode reads one resource from a JSON object with a "kind" member. Names of members
// are those of the field tags and must be written exactly so. A staged policy is one of
// kind "StagedPolicy"; there is no member "staged".
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
	canonicalize(r)
	return r, nil
}

// peekKey reads what it can of an object's identity, for the error message.
func peekKey(data []byte) Key {
	var id struct {
		Kind            Kind
		Namespace, Name string
	}
	_ = json.Unmarshal(data, &id) // what could be read is all that is wanted
	return Key(id)
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
	switch kind {
	case KindPolicy, KindStagedPolicy:
		return d.policy(n, kind == KindStagedPolicy)
	case KindTier:
		return d.tier(n)
	case KindProfile:
		return d.profile(n)
	case KindNetworkSet:
		return d.networkSet(n)
	case KindWorkloadEndpoint:
		return d.workloadEndpoint(n)
	case "":
		d.add("kind", "required")
	default:
		d.add("kind", "unknown kind %q", clip(string(kind)))
	}
	return nil
}

func (d *decoder) policy(n *jsonNode, staged bool) *Policy {
	p := &Policy{Staged: staged}
	d.object("", n, fields{
		"kind":                   skip,
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
		"performanceHints":       list(d, &p.PerformanceHints, text[PerformanceHint]),
		"staged": func(path string, _ *jsonNode) {
			d.add(path, "the kind says whether a policy is staged: Policy or StagedPolicy")
		},
	})
	return p
}

func (d *decoder) tier(n *jsonNode) *Tier {
	t := &Tier{}
	d.object("", n, fields{
		"kind":          skip,
		"name":          text(d, &t.Name),
		"order":         d.order(&t.Order),
		"defaultAction": text(d, &t.DefaultAction),
	})
	return t
}

func (d *decoder) profile(n *jsonNode) *Profile {
	p := &Profile{}
	d.object("", n, fields{
		"kind":          skip,
		"name":          text(d, &p.Name),
		"labelsToApply": d.texts(&p.LabelsToApply),
		"ingress":       list(d, &p.Ingress, (*decoder).rule),
		"egress":        list(d, &p.Egress, (*decoder).rule),
	})
	return p
}

func (d *decoder) networkSet(n *jsonNode) *NetworkSet {
	s := &NetworkSet{}
	d.object("", n, fields{
		"kind":      skip,
		"namespace": text(d, &s.Namespace),
		"name":      text(d, &s.Name),
		"labels":    d.texts(&s.Labels),
		"nets":      d.nets(&s.Nets),
	})
	return s
}

func (d *decoder) workloadEndpoint(n *jsonNode) *WorkloadEndpoint {
	w := &WorkloadEndpoint{}
	d.object("", n, fields{
		"kind":       skip,
		"namespace":  text(d, &w.Namespace),
		"name":       text(d, &w.Name),
		"node":       text(d, &w.Node),
		"interface":  text(d, &w.Interface),
		"addresses":  list(d, &w.Addresses, (*decoder).address),
		"mac":        text(d, &w.MAC),
		"labels":     d.texts(&w.Labels),
		"ports":      list(d, &w.Ports, (*decoder).endpointPort),
		"profiles":   list(d, &w.Profiles, text[string]),
		"adminState": text(d, &w.AdminState),
	})
	return w
}

func (d *decoder) endpointPort(p *EndpointPort) reader {
	return d.struc(fields{
		"name":     text(d, &p.Name),
		"protocol": d.protocol(&p.Protocol),
		"port":     d.portNumber(&p.Port),
	})
}

func (d *decoder) rule(r *Rule) reader {
	return d.struc(fields{
		"action":      text(d, &r.Action),
		"ipVersion":   d.ipVersion(&r.IPVersion),
		"protocol":    d.protocol(&r.Protocol),
		"notProtocol": d.protocol(&r.NotProtocol),
		"icmp":        optional(d, &r.ICMP, (*decoder).icmp),
		"notICMP":     optional(d, &r.NotICMP, (*decoder).icmp),
		"source":      d.entityRule(&r.Source),
		"destination": d.entityRule(&r.Destination),
		"metadata":    optional(d, &r.Metadata, (*decoder).ruleMetadata),
	})
}

func (d *decoder) icmp(i *ICMP) reader {
	return d.struc(fields{
		"type": optional(d, &i.Type, (*decoder).integer),
		"code": optional(d, &i.Code, (*decoder).integer),
	})
}

func (d *decoder) entityRule(e *EntityRule) reader {
	return d.struc(fields{
		"nets":              d.nets(&e.Nets),
		"notNets":           d.nets(&e.NotNets),
		"selector":          text(d, &e.Selector),
		"notSelector":       text(d, &e.NotSelector),
		"namespaceSelector": text(d, &e.NamespaceSelector),
		"serviceAccounts":   optional(d, &e.ServiceAccounts, (*decoder).serviceAccounts),
		"ports":             list(d, &e.Ports, (*decoder).port),
		"notPorts":          list(d, &e.NotPorts, (*decoder).port),
	})
}

func (d *decoder) serviceAccounts(s *ServiceAccounts) reader {
	return d.struc(fields{
		"names":    list(d, &s.Names, text[string]),
		"selector": text(d, &s.Selector),
	})
}

func (d *decoder) ruleMetadata(m *RuleMetadata) reader {
	return d.struc(fields{"annotations": d.texts(&m.Annotations)})
}
