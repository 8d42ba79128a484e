// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"
)

func (v *validator) rules(field string, rules []Rule) {
	if !v.atMost(field, len(rules), maxRules) {
		return
	}
	for i := range rules {
		v.rule(index(field, i), &rules[i])
	}
}

func (v *validator) rule(field string, r *Rule) {
	switch r.Action {
	case Allow, Deny, Pass, Log:
	case "":
		v.add(field+".action", "required")
	default:
		v.add(field+".action", "want Allow, Deny, Pass or Log, not %q", clip(string(r.Action)))
	}
	switch r.IPVersion {
	case 0, 4, 6:
	default:
		v.add(field+".ipVersion", "want 4 or 6, not %d", r.IPVersion)
	}
	v.icmp(field+".icmp", r.ICMP, r.Protocol)
	v.icmp(field+".notICMP", r.NotICMP, r.Protocol)
	v.entityRule(field+".source", &r.Source, r.Protocol)
	v.entityRule(field+".destination", &r.Destination, r.Protocol)
	if r.Metadata != nil {
		v.annotations(field+".metadata.annotations", r.Metadata.Annotations)
	}
}

func (v *validator) icmp(field string, i *ICMP, p Protocol) {
	if i == nil {
		return
	}
	if p != ProtocolICMP && p != ProtocolICMPv6 {
		v.add(field, "needs protocol ICMP or ICMPv6")
	}
	switch {
	case i.Type == nil:
		v.add(field+".type", "required")
	case *i.Type < 0 || *i.Type > 254:
		v.add(field+".type", "want 0 to 254, not %d", *i.Type)
	}
	if i.Code != nil && (*i.Code < 0 || *i.Code > 255) {
		v.add(field+".code", "want 0 to 255, not %d", *i.Code)
	}
}

func (v *validator) entityRule(field string, e *EntityRule, p Protocol) {
	v.nets(field+".nets", e.Nets)
	v.nets(field+".notNets", e.NotNets)
	v.selector(field+".selector", e.Selector)
	v.selector(field+".notSelector", e.NotSelector)
	v.prefixedSelector(field+".namespaceSelector", e.NamespaceSelector, NamespaceLabelPrefix)
	v.serviceAccounts(field+".serviceAccounts", e.ServiceAccounts)
	v.ports(field+".ports", e.Ports, p)
	v.ports(field+".notPorts", e.NotPorts, p)
}

// serviceAccounts refuses a value that limits nothing: it may be what is left of a list
// of names that became empty.
func (v *validator) serviceAccounts(field string, s *ServiceAccounts) {
	if s == nil {
		return
	}
	if len(s.Names) == 0 && s.Selector == "" {
		v.add(field, "needs names or a selector")
	}
	for i, name := range s.Names {
		v.name(index(field+".names", i), name)
	}
	v.prefixedSelector(field+".selector", s.Selector, ServiceAccountLabelPrefix)
}

// ports checks a list of ports. Numbers mean nothing without a protocol that has ports; a
// name alone brings the protocol of the endpoint's port.
func (v *validator) ports(field string, ports []Port, p Protocol) {
	if !v.atMost(field, len(ports), maxPorts) {
		return
	}
	for i, port := range ports {
		switch why := port.problem(); {
		case why != "":
			v.add(index(field, i), "%s", why)
		case p != 0 && !p.HasPorts():
			v.add(index(field, i), "protocol %s has no ports: want TCP, UDP or SCTP", p)
		case p == 0 && port.Name == "":
			v.add(index(field, i), "needs a protocol: TCP, UDP or SCTP")
		}
	}
}

func (v *validator) annotations(field string, annotations map[string]string) {
	if !v.atMost(field, len(annotations), maxLabels) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		at := join(field, key)
		if key == "" {
			v.add(at, "an annotation needs a key")
		}
		v.text(at, key, maxName, "")
		v.text(at, annotations[key], maxAnnotation, "\t\r\n")
	}
}
