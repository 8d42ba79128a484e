// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// side is the source or destination of a packet.
type side struct {
	addr netip.Addr
	port uint16
	// objects are the endpoints with the address and the network sets that contain it.
	objects []*object
	// reasonPrefixes are the prefixes of reasons about an object. noObject is the reason if there
	// is none. They are built on first use, because an explanation can have thousands of reasons.
	reasonPrefixes []string
	noObject       string
}

// reasonPrefix returns the prefix of a reason about the n-th object.
func (s *side) reasonPrefix(n int) string {
	if s.reasonPrefixes == nil {
		for i, o := range s.objects {
			text := ", and " + o.name + ", where "
			if i == 0 {
				text = s.addr.String() + " is " + o.name + ", where "
			}
			s.reasonPrefixes = append(s.reasonPrefixes, text)
		}
	}
	return s.reasonPrefixes[n]
}

// withoutObject returns the reason for an address without an object.
func (s *side) withoutObject() string {
	if s.noObject == "" {
		s.noObject = s.addr.String() + " belongs to no endpoint and no network set"
	}
	return s.noObject
}

// entityChecks collects the checks for one side of a rule.
type entityChecks struct {
	name   string
	of     func(*packet) *side
	checks []check
}

// entity compiles one side of a rule of a policy in the namespace to checks.
func (c *compiler) entity(namespace, name string, e *policy.EntityRule, of func(*packet) *side) ([]check, error) {
	made := &entityChecks{name: name, of: of}
	made.addNets(e)
	peers, err := peerScope(namespace, e)
	if err != nil {
		return nil, err
	}
	for i := range peers {
		peers[i].field = name + "." + peers[i].field
	}
	if err := made.addPeers(peers, e.NotSelector); err != nil {
		return nil, err
	}
	made.addPorts(e, peers)
	made.addService(e.Services, namespace, c.services)
	return made.checks, nil
}

// peerScope compiles the positive conditions of a side on endpoints and network sets. In a
// namespaced policy, it is limited to the namespace, unless there is a namespaceSelector or no
// condition on endpoints.
func peerScope(namespace string, e *policy.EntityRule) (scope, error) {
	f := scopeFields{namespaceSelector: e.NamespaceSelector, selector: e.Selector}
	if a := e.ServiceAccounts; a != nil {
		f.accountNames, f.accountSelector = a.Names, a.Selector
	}
	if e.NamespaceSelector == "" && (e.Selector != "" || e.NotSelector != "" || e.ServiceAccounts != nil) {
		f.namespace = namespace
	}
	return compileScope(f)
}

func (c *entityChecks) add(field string, holds func(*packet, *side) bool, why func(*packet, *side) string) {
	field = c.name + "." + field
	c.checks = append(c.checks, check{
		holds: func(p *packet) bool { return holds(p, c.of(p)) },
		why:   func(p *packet) Mismatch { return Mismatch{Field: field, Reason: why(p, c.of(p))} },
	})
}

// addNets adds the conditions on prefixes. A prefix never contains an address of the other family.
// So 0.0.0.0/0 is any IPv4 address, and a list without prefixes of the packet's family matches
// nothing.
func (c *entityChecks) addNets(e *policy.EntityRule) {
	if len(e.Nets) > 0 {
		c.add("nets", func(_ *packet, s *side) bool { return contains(e.Nets, s.addr) },
			func(_ *packet, s *side) string { return fmt.Sprintf("%s is in none of %s", s.addr, list(e.Nets)) })
	}
	if len(e.NotNets) > 0 {
		c.add("notNets", func(_ *packet, s *side) bool { return !contains(e.NotNets, s.addr) },
			func(_ *packet, s *side) string { return fmt.Sprintf("%s is in one of %s", s.addr, list(e.NotNets)) })
	}
}

// addPeers adds the conditions on selectors. With positive conditions, one object must match them
// and not be excluded. Without positive conditions, notSelector excludes the addresses of the
// objects that it selects, and allows all others, also those without an object.
func (c *entityChecks) addPeers(peers scope, notSelector string) error {
	if notSelector != "" {
		sel, err := selector.Parse(notSelector)
		if err != nil {
			return fmt.Errorf("notSelector: %w", err)
		}
		excluded := func(o *object) bool { return sel.Match(o.labels) }
		if len(peers) == 0 {
			c.add("notSelector", func(_ *packet, s *side) bool { return !slices.ContainsFunc(s.objects, excluded) },
				func(_ *packet, s *side) string {
					o := s.objects[slices.IndexFunc(s.objects, excluded)]
					return fmt.Sprintf("%s is %s, where %s is true", s.addr, o.name, notSelector)
				})
			return nil
		}
		peers = append(slices.Clip(peers), part{
			c.name + ".notSelector", "!(" + notSelector + ")",
			func(o *object) bool { return !excluded(o) },
		})
	}
	if len(peers) == 0 {
		return nil
	}
	c.checks = append(c.checks, check{
		holds: func(p *packet) bool { return slices.ContainsFunc(c.of(p).objects, peers.selects) },
		why:   func(p *packet) Mismatch { return peers.why(c.of(p)) },
	})
	return nil
}

// why returns the reason why the scope has no object of the side.
func (s scope) why(at *side) Mismatch {
	if len(at.objects) == 0 {
		return Mismatch{Field: s[len(s)-1].field, Reason: at.withoutObject()}
	}
	var field, reasons string
	for n, o := range at.objects {
		i := slices.IndexFunc(s, func(p part) bool { return !p.holds(o) })
		if n == 0 {
			field = s[i].field
		}
		reasons += at.reasonPrefix(n) + s[i].text + " is false"
	}
	return Mismatch{Field: field, Reason: reasons}
}

// addPorts adds the conditions on ports. A named port is resolved for the endpoints in the scope
// that have the address. The scope does not include notSelector.
func (c *entityChecks) addPorts(e *policy.EntityRule, peers scope) {
	if len(e.Ports) > 0 {
		c.add("ports", func(p *packet, s *side) bool { return portMatches(e.Ports, peers, p, s) },
			func(p *packet, s *side) string {
				if !p.Protocol.HasPorts() {
					return fmt.Sprintf("%s has no ports", p.Protocol)
				}
				return fmt.Sprintf("%s port %d of %s is none of %s", p.Protocol, s.port, s.addr, list(e.Ports))
			})
	}
	if len(e.NotPorts) > 0 {
		c.add("notPorts", func(p *packet, s *side) bool { return !portMatches(e.NotPorts, peers, p, s) },
			func(p *packet, s *side) string {
				return fmt.Sprintf("%s port %d of %s is one of %s", p.Protocol, s.port, s.addr, list(e.NotPorts))
			})
	}
}

// portMatches reports whether the list has the side's port.
func portMatches(ports []policy.Port, peers scope, p *packet, s *side) bool {
	if !p.Protocol.HasPorts() {
		return false
	}
	return slices.ContainsFunc(ports, func(port policy.Port) bool {
		if port.Name == "" {
			return port.First <= s.port && s.port <= port.Last
		}
		return slices.ContainsFunc(s.objects, func(o *object) bool {
			return peers.selects(o) &&
				slices.Contains(o.ports, policy.EndpointPort{Name: port.Name, Protocol: p.Protocol, Port: s.port})
		})
	})
}

// list joins values with commas.
func list[T fmt.Stringer](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = v.String()
	}
	return strings.Join(texts, ", ")
}
