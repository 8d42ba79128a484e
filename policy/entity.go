// SPDX-License-Identifier: Apache-2.0

package policy

import "slices"

// EntityRule says which packets match on one side, source or destination. Readers may
// share one that nobody changes.
type EntityRule struct {
	// Nets that the address must be in one of. Empty means no limit. Prefixes of both
	// families may be mixed: the rule then counts, per family, with the prefixes of that
	// family, and not at all for a family that has none. 0.0.0.0/0 is any IPv4 address,
	// not any address.
	Nets Nets `json:"nets,omitempty"`
	// NotNets that the address must be in none of. Empty means no limit. Prefixes of the other
	// family than the packet's exclude nothing: a rule with notNets 10.0.0.0/8 alone matches every
	// IPv6 address.
	NotNets Nets `json:"notNets,omitempty"`
	// Selector over the labels of endpoints and network sets: the address must be that
	// of one that matches. Empty means no limit. In a namespaced policy it sees only
	// objects of the same namespace unless NamespaceSelector is given.
	Selector string `json:"selector,omitempty"`
	// NotSelector excludes the addresses of matching endpoints and network sets. Empty means
	// none.
	//
	// With Selector, NamespaceSelector or ServiceAccounts beside it, or in a namespaced
	// policy (which by itself limits the peers to its namespace), the two are one set:
	// those who match the rest and not this. On its own in a global policy it
	// excludes nobody but those who match: an address that is no endpoint's passes.
	NotSelector string `json:"notSelector,omitempty"`
	// NamespaceSelector over the labels of namespaces: only endpoints and network sets
	// in matching namespaces count. "all()" means in any namespace, "global()" means not
	// namespaced, as host endpoints are. Empty means the policy's own namespace where a
	// selector is given, or no limit in a global policy.
	//
	// One that is true without a label (env != "prod", !has(env)) matches what has no namespace
	// too: host endpoints, global network sets, and with them perhaps the whole internet. With
	// "all() &&" before it, it does not.
	NamespaceSelector string `json:"namespaceSelector,omitempty"`
	// ServiceAccounts limits the endpoints by their service account. Nil means no limit;
	// a value that names nothing is invalid.
	ServiceAccounts *ServiceAccounts `json:"serviceAccounts,omitempty"`
	// Services limits the peer to the backends of a service. It stands in the source of ingress
	// rules, where it means their addresses alone, and in the destination of egress rules, where
	// it means their addresses, protocols and ports; elsewhere it is invalid. Nil means no limit.
	//
	// It excludes Nets, NotNets, Selector, NotSelector, NamespaceSelector, ServiceAccounts, Ports
	// and NotPorts on the same side. The rule needs no Protocol for it; where one is given, both
	// must match, as with every other field.
	Services *ServiceMatch `json:"services,omitempty"`
	// Ports that the packet's port must be one of: numbers, ranges and names. Empty means no
	// limit. Numbers and ranges need a Protocol that has ports; a name alone brings its own.
	Ports []Port `json:"ports,omitempty"`
	// NotPorts that the packet's port must be none of. Empty means no limit. Numbers need a
	// Protocol as with Ports.
	NotPorts []Port `json:"notPorts,omitempty"`
}

// IsZero reports whether e limits nothing.
func (e EntityRule) IsZero() bool { return e.equal(&EntityRule{}) }

// ServiceAccounts selects endpoints by service account. Both fields must match where
// both are given; one must be. Readers may share a value that nobody changes.
type ServiceAccounts struct {
	// Names of service accounts, any of which will do. Empty means any name.
	Names []string `json:"names,omitempty"`
	// Selector over the labels of service accounts. Empty means any. One that is true without a
	// label (role != "bot") matches what has no account too: host endpoints and network sets.
	Selector string `json:"selector,omitempty"`
}

// ServiceMatch names a service, whose backends (see ServiceBackends) a rule then matches. A
// service without backends matches nothing. Readers may share a value that nobody changes.
type ServiceMatch struct {
	// Name of the service. Required.
	Name string `json:"name"`
	// Namespace of the service. Empty means the namespace of the policy; required in a
	// policy without one, and in profiles.
	Namespace string `json:"namespace,omitempty"`
}

// In returns the service with its namespace: its own, or else that of the policy, which
// is empty for a global policy or a profile (and the rule then invalid).
func (s ServiceMatch) In(namespace string) ServiceMatch {
	if s.Namespace == "" {
		s.Namespace = namespace
	}
	return s
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

func (e *EntityRule) equal(o *EntityRule) bool {
	return slices.Equal(e.Nets, o.Nets) && slices.Equal(e.NotNets, o.NotNets) &&
		e.Selector == o.Selector && e.NotSelector == o.NotSelector &&
		e.NamespaceSelector == o.NamespaceSelector &&
		e.ServiceAccounts.equal(o.ServiceAccounts) && equalPointers(e.Services, o.Services) &&
		slices.Equal(e.Ports, o.Ports) && slices.Equal(e.NotPorts, o.NotPorts)
}

func (s *ServiceAccounts) equal(o *ServiceAccounts) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Selector == o.Selector && slices.Equal(s.Names, o.Names)
}

func (d *digest) entity(e *EntityRule) {
	d.nets(e.Nets)
	d.nets(e.NotNets)
	d.text(e.Selector)
	d.text(e.NotSelector)
	d.text(e.NamespaceSelector)
	if d.present(e.ServiceAccounts != nil) {
		d.number(uint64(len(e.ServiceAccounts.Names)))
		for _, name := range e.ServiceAccounts.Names {
			d.text(name)
		}
		d.text(e.ServiceAccounts.Selector)
	}
	if d.present(e.Services != nil) {
		d.text(e.Services.Name)
		d.text(e.Services.Namespace)
	}
	d.ports(e.Ports)
	d.ports(e.NotPorts)
}
