// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"slices"
)

// ruleScope is what the meaning of a rule depends on besides itself.
type ruleScope struct {
	direction Type
	namespace string // of the policy; empty in a global policy and in a profile
}

func (v *validator) rules(field string, rules []Rule, scope ruleScope) {
	if !v.atMost(field, len(rules), maxRules) {
		return
	}
	for i := range rules {
		v.enter(field, i)
		v.rule(&rules[i], scope)
		v.leave()
	}
}

func (v *validator) rule(r *Rule, scope ruleScope) {
	if why := r.Action.problem(); why != "" {
		v.add("action", "%s", why)
	}
	switch r.IPVersion {
	case 0, 4, 6:
	default:
		v.add("ipVersion", "want 4 or 6, not %d", r.IPVersion)
	}
	v.icmp("icmp", r.ICMP, r.Protocol)
	v.icmp("notICMP", r.NotICMP, r.Protocol)
	v.header(&r.HeaderMatch)
	v.enter("source", -1)
	v.entityRule(&r.Source, r.Protocol)
	v.services(&r.Source, scope, Ingress)
	v.leave()
	v.enter("destination", -1)
	v.entityRule(&r.Destination, r.Protocol)
	v.services(&r.Destination, scope, Egress)
	v.leave()
	v.metadata(r.Metadata)
	v.doubts(r)
}

// problem returns what is wrong with the action, or "".
func (a Action) problem() string {
	switch a {
	case Allow, Deny, Pass, Log:
		return ""
	case "":
		return "required"
	}
	return fmt.Sprintf("want Allow, Deny, Pass or Log, not %q", clip(string(a)))
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

func (v *validator) entityRule(e *EntityRule, p Protocol) {
	v.nets("nets", e.Nets)
	v.nets("notNets", e.NotNets)
	v.selector("selector", e.Selector)
	v.selector("notSelector", e.NotSelector)
	v.prefixedSelector("namespaceSelector", e.NamespaceSelector, NamespaceLabelPrefix)
	v.serviceAccounts(e.ServiceAccounts)
	v.ports("ports", e.Ports, p)
	v.ports("notPorts", e.NotPorts, p)
}

// serviceAccounts refuses a value that limits nothing: it may be what is left of a list
// of names that became empty.
func (v *validator) serviceAccounts(s *ServiceAccounts) {
	if s == nil {
		return
	}
	v.enter("serviceAccounts", -1)
	defer v.leave()
	if len(s.Names) == 0 && s.Selector == "" {
		v.add("", "needs names or a selector")
	}
	for i, name := range s.Names {
		v.nameAt("names", i, name)
	}
	v.prefixedSelector("selector", s.Selector, ServiceAccountLabelPrefix)
}

// services checks that a service stands on the side of the peer, which is so only in rules of one
// direction, and alone. What it would mean beside another field, "both" or "either", would
// be a guess.
func (v *validator) services(e *EntityRule, scope ruleScope, direction Type) {
	s := e.Services
	if s == nil {
		return
	}
	if scope.direction != direction {
		v.add("services", "only for the source of ingress and the destination of egress rules")
	}
	v.name("services.name", s.Name)
	switch {
	case s.Namespace != "":
		v.name("services.namespace", s.Namespace)
	case scope.namespace == "":
		v.add("services.namespace", "required in a global policy and in a profile")
	}
	for _, other := range []struct {
		name string
		set  bool
	}{
		{"nets", len(e.Nets) > 0},
		{"notNets", len(e.NotNets) > 0},
		{"selector", e.Selector != ""},
		{"notSelector", e.NotSelector != ""},
		{"namespaceSelector", e.NamespaceSelector != ""},
		{"serviceAccounts", e.ServiceAccounts != nil},
		{"ports", len(e.Ports) > 0},
		{"notPorts", len(e.NotPorts) > 0},
	} {
		if other.set {
			v.add(other.name, "not allowed beside services")
		}
	}
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

func (v *validator) metadata(m *RuleMetadata) {
	if m != nil {
		v.annotations("metadata.annotations", m.Annotations)
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
