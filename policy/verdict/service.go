// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/policy"
)

// serviceName identifies a service.
type serviceName struct{ namespace, name string }

// service is what stands behind a service, from all its parts together.
type service struct {
	addresses map[netip.Addr]bool
	backends  map[backend]bool
}

// backend is a port that a service's backend listens on.
type backend struct {
	addr  netip.Addr
	proto policy.Protocol
	port  uint16
}

// addService adds one part of what stands behind a service.
func (e *Evaluator) addService(r *policy.ServiceBackends) {
	name := serviceName{r.Namespace, r.Service}
	s := e.services[name]
	if s == nil {
		s = &service{addresses: map[netip.Addr]bool{}, backends: map[backend]bool{}}
		e.services[name] = s
	}
	for _, addr := range r.Addresses {
		s.addresses[addr] = true
		for _, port := range r.Ports {
			s.backends[backend{addr, port.Protocol, port.Port}] = true
		}
	}
}

// addService adds the match of a service: as a source by address alone, as a destination by
// address, protocol and port (S77).
func (c *entityChecks) addService(m *policy.ServiceMatch, namespace string, services map[serviceName]*service) {
	if m == nil {
		return
	}
	name := m.In(namespace)
	s := services[serviceName{name.Namespace, name.Name}]
	if s == nil {
		s = &service{} // of nobody
	}
	at := fmt.Sprintf(" of service %s/%s", name.Namespace, name.Name)
	if c.name == "source" {
		c.add("services", func(_ *packet, from *side) bool { return s.addresses[from.addr] },
			func(_ *packet, from *side) string { return from.addr.String() + " is no backend" + at })
		return
	}
	c.add("services",
		func(p *packet, to *side) bool {
			return s.backends[backend{to.addr, p.Protocol, to.port}]
		},
		func(p *packet, to *side) string {
			if !p.Protocol.HasPorts() {
				return fmt.Sprintf("%s has no ports", p.Protocol)
			}
			return fmt.Sprintf("%s port %d of %s is no backend%s", p.Protocol, to.port, to.addr, at)
		})
}
