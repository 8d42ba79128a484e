// SPDX-License-Identifier: Apache-2.0

package policy

import "net/netip"

// ServiceBackends has backends of a service. Each of its addresses serves each of its ports. A
// service can have several ServiceBackends, just as a Kubernetes Service can have several
// EndpointSlices. The service then has the backends of all of them.
type ServiceBackends struct {
	// Namespace of the service. Required.
	Namespace string `json:"namespace"`
	// Name of this ServiceBackends, not of the service. No other ServiceBackends of the namespace
	// may have the same name, even if it belongs to another service. Required.
	Name string `json:"name"`
	// Service to which the backends belong, in the same namespace. Required.
	Service string `json:"service"`
	// Addresses of the backends, of both families, without duplicates. Empty means no backends.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Ports of the backends. It may have duplicates. If it is empty, rules for traffic to the
	// service do not match these backends. Rules for traffic from the service match only addresses,
	// whatever the ports are.
	Ports []ServicePort `json:"ports,omitempty"`
}

// ServicePort is a port of the backends of a service.
type ServicePort struct {
	// Protocol: TCP, UDP or SCTP. Required.
	Protocol Protocol `json:"protocol"`
	// Port number on the backend (not the port of the service), 1 to 65535. Required.
	Port uint16 `json:"port"`
}

// Key returns the key of the ServiceBackends.
func (s *ServiceBackends) Key() Key {
	return Key{Kind: KindServiceBackends, Namespace: s.Namespace, Name: s.Name}
}

func (*ServiceBackends) resource() {}

// Validate reports all problems of the ServiceBackends as one *ValidationError, or nil.
func (s *ServiceBackends) Validate() error {
	v := &validator{}
	v.name("namespace", s.Namespace)
	v.name("name", s.Name)
	v.name("service", s.Service)
	v.addresses("addresses", s.Addresses, maxBackends)
	if !v.atMost("ports", len(s.Ports), maxPorts) {
		return v.err(s.Key())
	}
	for i, p := range s.Ports {
		v.enter("ports", i)
		v.protocolWithPort(p.Protocol, p.Port)
		v.leave()
	}
	return v.err(s.Key())
}
