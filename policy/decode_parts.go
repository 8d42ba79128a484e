// SPDX-License-Identifier: Apache-2.0

package policy

func (d *decoder) endpointPort(p *EndpointPort) reader {
	return d.struc(memberReaders{
		"name":     text(d, &p.Name),
		"protocol": d.protocol(&p.Protocol),
		"port":     d.portNumber(&p.Port),
	})
}

func (d *decoder) rule(r *Rule) reader {
	return d.struc(d.header(&r.HeaderMatch, memberReaders{
		"action":      text(d, &r.Action),
		"ipVersion":   d.ipVersion(&r.IPVersion),
		"protocol":    d.protocol(&r.Protocol),
		"notProtocol": d.protocol(&r.NotProtocol),
		"icmp":        optional(d, &r.ICMP, (*decoder).icmp),
		"notICMP":     optional(d, &r.NotICMP, (*decoder).icmp),
		"source":      d.entityRule(&r.Source),
		"destination": d.entityRule(&r.Destination),
		"metadata":    optional(d, &r.Metadata, (*decoder).ruleMetadata),
		"doubts":      list(d, &r.Doubts, (*decoder).problem),
	}))
}

func (d *decoder) problem(p *Problem) reader {
	return d.struc(memberReaders{
		"field": text(d, &p.Field),
		"msg":   text(d, &p.Msg),
	})
}

func (d *decoder) icmp(i *ICMP) reader {
	return d.struc(memberReaders{
		"type": optional(d, &i.Type, (*decoder).integer),
		"code": optional(d, &i.Code, (*decoder).integer),
	})
}

func (d *decoder) entityRule(e *EntityRule) reader {
	return d.struc(memberReaders{
		"nets":              d.nets(&e.Nets),
		"notNets":           d.nets(&e.NotNets),
		"selector":          text(d, &e.Selector),
		"notSelector":       text(d, &e.NotSelector),
		"namespaceSelector": text(d, &e.NamespaceSelector),
		"serviceAccounts":   optional(d, &e.ServiceAccounts, (*decoder).serviceAccounts),
		"services":          optional(d, &e.Services, (*decoder).serviceMatch),
		"ports":             list(d, &e.Ports, (*decoder).port),
		"notPorts":          list(d, &e.NotPorts, (*decoder).port),
	})
}

func (d *decoder) serviceAccounts(s *ServiceAccounts) reader {
	return d.struc(memberReaders{
		"names":    list(d, &s.Names, text[string]),
		"selector": text(d, &s.Selector),
	})
}

func (d *decoder) ruleMetadata(m *RuleMetadata) reader {
	return d.struc(memberReaders{"annotations": d.texts(&m.Annotations)})
}

func (d *decoder) serviceMatch(s *ServiceMatch) reader {
	return d.struc(memberReaders{
		"name":      text(d, &s.Name),
		"namespace": text(d, &s.Namespace),
	})
}

func (d *decoder) hostConfig(h *HostConfig) reader {
	return d.struc(memberReaders{
		"endpointToHostAction":    text(d, &h.EndpointToHostAction),
		"hostToEndpointAction":    text(d, &h.HostToEndpointAction),
		"failsafeInbound":         d.failsafes(&h.FailsafeInbound),
		"failsafeOutbound":        d.failsafes(&h.FailsafeOutbound),
		"allowVXLANFromWorkloads": d.boolean(&h.AllowVXLANFromWorkloads),
		"allowIPIPFromWorkloads":  d.boolean(&h.AllowIPIPFromWorkloads),
		"vxlanPort":               d.portNumber(&h.VXLANPort),
		"keepInvalid":             d.boolean(&h.KeepInvalid),
	})
}

// failsafes reads a list that is not nil when it is given without entries: those are no failsafe
// ports, not the default.
func (d *decoder) failsafes(to *[]Failsafe) reader {
	return func(path string, n *jsonNode) {
		*to = []Failsafe{}
		list(d, to, (*decoder).failsafe)(path, n)
	}
}

func (d *decoder) failsafe(f *Failsafe) reader {
	return d.struc(memberReaders{
		"protocol": d.protocol(&f.Protocol),
		"port":     d.portNumber(&f.Port),
		"net":      d.net(&f.Net),
	})
}
