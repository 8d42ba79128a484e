// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"slices"
)

// ServiceBackends is a part of what stands behind a service: every address serves every
// port. The backends of a service are those of all its parts together (as a Kubernetes
// Service has several EndpointSlices); an address that two parts give stays until neither
// does. Readers may share a ServiceBackends that nobody changes.
type ServiceBackends struct {
	// Namespace of the service. Required.
	Namespace string `json:"namespace"`
	// Name of the part, unique within the namespace over all services. Required.
	Name string `json:"name"`
	// Service that the part belongs to, in the same namespace. Required.
	Service string `json:"service"`
	// Addresses of the backends, both families, each once. Empty means that the part has no
	// backends.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Ports of the backends; duplicates collapse. Empty means that rules for traffic to the service
	// match nothing of this part; rules for traffic from it go by the addresses alone.
	Ports []ServicePort `json:"ports,omitempty"`
}

// ServicePort is a port that the backends of a service listen on. It is a plain value; it is
// safe for concurrent use.
type ServicePort struct {
	// Protocol: TCP, UDP or SCTP. Required.
	Protocol Protocol `json:"protocol"`
	// Port number on the backend (not the port of the service), 1 to 65535. Required.
	Port uint16 `json:"port"`
}

// Key returns the identity of this part of the service.
func (s *ServiceBackends) Key() Key {
	return Key{Kind: KindServiceBackends, Namespace: s.Namespace, Name: s.Name}
}

// Validate reports every problem of this part of the service as one *ValidationError, or nil.
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

func (s *ServiceBackends) equal(other Resource) bool {
	o, ok := other.(*ServiceBackends)
	return ok && s.Namespace == o.Namespace && s.Name == o.Name && s.Service == o.Service &&
		slices.Equal(s.Addresses, o.Addresses) && slices.Equal(s.Ports, o.Ports)
}
