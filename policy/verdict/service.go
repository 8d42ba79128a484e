// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// serviceName identifies a service.
type serviceName struct{ namespace, name string }

// service has the backends of a service, by address. In each ServiceBackends, every address serves
// every port. That is up to a hundred million pairs, so the addresses of one share a set of ports.
type service struct {
	parts map[netip.Addr][]portSet
}

// portSet has the ports of one ServiceBackends.
type portSet map[policy.ServicePort]bool

// has reports whether the address is that of a backend.
func (s *service) has(addr netip.Addr) bool { return len(s.parts[addr]) > 0 }

// serves reports whether a backend with the address has the port.
func (s *service) serves(addr netip.Addr, port policy.ServicePort) bool {
	return slices.ContainsFunc(s.parts[addr], func(p portSet) bool { return p[port] })
}

// addService adds backends of a service.
func (e *Evaluator) addService(r *policy.ServiceBackends) {
	name := serviceName{r.Namespace, r.Service}
	s := e.services[name]
	if s == nil {
		s = &service{parts: map[netip.Addr][]portSet{}}
		e.services[name] = s
	}
	part := make(portSet, len(r.Ports))
	for _, port := range r.Ports {
		part[port] = true
	}
	for _, addr := range r.Addresses {
		s.parts[addr] = append(s.parts[addr], part)
	}
}

// addService adds the condition on a service: as a source by address only, as a destination by
// address, protocol and port (S77).
func (c *entityChecks) addService(m *policy.ServiceMatch, namespace string, services map[serviceName]*service) {
	if m == nil {
		return
	}
	name := m.In(namespace)
	s := services[serviceName{name.Namespace, name.Name}]
	if s == nil {
		s = &service{} // without backends
	}
	at := fmt.Sprintf(" of service %s/%s", name.Namespace, name.Name)
	if c.name == "source" {
		c.add("services", func(_ *packet, from *side) bool { return s.has(from.addr) },
			func(_ *packet, from *side) string { return from.addr.String() + " is not a backend" + at })
		return
	}
	c.add("services",
		func(p *packet, to *side) bool {
			return s.serves(to.addr, policy.ServicePort{Protocol: p.Protocol, Port: to.port})
		},
		func(p *packet, to *side) string {
			if !p.Protocol.HasPorts() {
				return fmt.Sprintf("%s has no ports", p.Protocol)
			}
			return fmt.Sprintf("%s port %d of %s is not a backend%s", p.Protocol, to.port, to.addr, at)
		})
}
