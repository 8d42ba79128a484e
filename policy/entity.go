// SPDX-License-Identifier: Apache-2.0

package policy

// EntityRule has the conditions of a rule on one side of a packet: source or destination.
type EntityRule struct {
	// Nets are prefixes: the address must be in one of them. Empty means no limit. If all prefixes
	// are of one family, the rule matches no packets of the other family. 0.0.0.0/0 is any IPv4
	// address, not any address.
	Nets Nets `json:"nets,omitempty"`
	// NotNets are prefixes: the address must be in none of them. Empty means no limit. Prefixes
	// exclude only addresses of their own family: a rule with notNets 10.0.0.0/8 alone matches
	// every IPv6 address.
	NotNets Nets `json:"notNets,omitempty"`
	// Selector selects endpoints and network sets by their labels: the address must belong to one
	// of them. Empty means no limit. In a policy with a namespace and without NamespaceSelector, it
	// selects only objects of the same namespace.
	Selector string `json:"selector,omitempty"`
	// NotSelector excludes the addresses of matching endpoints and network sets. Empty means none.
	//
	// In a policy without a namespace, there are two cases. If Selector, NamespaceSelector and
	// ServiceAccounts are all empty, the rule also matches addresses that belong to no endpoint or
	// network set. If one of the three is set, the address must belong to an endpoint or network
	// set. That object must satisfy all three, and must not match NotSelector. For policies with a
	// namespace, see NamespaceSelector.
	NotSelector string `json:"notSelector,omitempty"`
	// NamespaceSelector selects namespaces by their labels: only endpoints and network sets in
	// these namespaces count. "all()" matches every object that has a namespace. "global()" matches
	// every object without a namespace, such as a host endpoint. Empty means no limit, with one
	// exception: if Selector, NotSelector or ServiceAccounts is set in a namespaced policy, only
	// objects of the policy's namespace count.
	//
	// Any other NamespaceSelector that is true for an object without labels, such as env != "prod"
	// or !has(env), also matches objects without a namespace. These are host endpoints and global
	// network sets. A global network set can include the whole internet. To exclude objects without
	// a namespace, write "all() &&" before the selector.
	NamespaceSelector string `json:"namespaceSelector,omitempty"`
	// ServiceAccounts limits the endpoints by their service account. Nil means no limit. A value
	// that has neither names nor a selector is invalid.
	ServiceAccounts *ServiceAccounts `json:"serviceAccounts,omitempty"`
	// Services limits the peer to the backends of a service. In the source of ingress rules, it
	// matches the addresses of the backends. In the destination of egress rules, it matches their
	// addresses, protocols and ports. It is not valid elsewhere. Nil means no limit.
	//
	// Services cannot be combined with Nets, NotNets, Selector, NotSelector, NamespaceSelector,
	// ServiceAccounts, Ports or NotPorts on the same side. The rule needs no Protocol. If the rule
	// has a Protocol, a packet must match both Protocol and Services.
	Services *ServiceMatch `json:"services,omitempty"`
	// Ports are numbers, ranges and names: the packet's port must match one of them. Empty means no
	// limit. Numbers and ranges need a Protocol with ports. A name needs none, because an
	// endpoint's named port has a protocol.
	Ports []Port `json:"ports,omitempty"`
	// NotPorts are numbers, ranges and names: the packet's port must match none of them. Empty
	// means no limit. Numbers and ranges need a Protocol, as in Ports.
	NotPorts []Port `json:"notPorts,omitempty"`
}

// IsZero reports whether e has no conditions.
//
// JSON calls it for both sides of each rule, where the function equal would allocate memory.
func (e EntityRule) IsZero() bool {
	return len(e.Nets)+len(e.NotNets)+len(e.Ports)+len(e.NotPorts) == 0 && e.Selector == "" && e.NotSelector == "" &&
		e.NamespaceSelector == "" && e.ServiceAccounts == nil && e.Services == nil
}

// ServiceAccounts selects endpoints by their service account. At least one of its fields must be
// set. If both are set, both must match.
type ServiceAccounts struct {
	// Names lists service accounts: one of them must match. Empty means any name.
	Names []string `json:"names,omitempty"`
	// Selector selects service accounts by their labels. Empty means any. A selector that is true
	// for an object without labels (role != "bot") also matches objects without an account: host
	// endpoints and network sets.
	Selector string `json:"selector,omitempty"`
}

// ServiceMatch names a service whose backends (see ServiceBackends) a rule matches. A service
// without backends matches nothing.
type ServiceMatch struct {
	// Name of the service. Required.
	Name string `json:"name"`
	// Namespace of the service. Empty means the namespace of the policy. It is required in global
	// policies and in profiles.
	Namespace string `json:"namespace,omitempty"`
}

// In returns a copy of s. If s.Namespace is empty, the copy has the given namespace. Pass the
// namespace of the policy that has the rule. For global policies and profiles, pass "": in their
// rules, a ServiceMatch without Namespace is invalid.
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

// serviceAccounts refuses a value without conditions, because a program may have made it from an
// empty list of names.
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

// services checks that a service is on the side of the peer, and that the side has no other fields.
// It would not be clear whether to combine a service with another field by AND or by OR, so a
// combination is refused.
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

// ports checks a list of ports. Numbers need a protocol with ports. A name includes the protocol of
// the endpoint's port.
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
