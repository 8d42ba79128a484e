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

// side is what a packet shows of its source or destination.
type side struct {
	addr netip.Addr
	port uint16
	// objects are the endpoints that hold the address and the network sets that contain it.
	objects []*object
}

// entityChecks collects the checks for one side of a rule.
type entityChecks struct {
	name   string
	of     func(*packet) *side
	checks []check
}

// compileEntity makes one side of a rule of a policy in the namespace into checks.
func compileEntity(namespace, name string, e *policy.EntityRule, of func(*packet) *side) ([]check, error) {
	c := &entityChecks{name: name, of: of}
	c.addNets(e)
	peers, err := peerScope(namespace, e)
	if err != nil {
		return nil, err
	}
	if err := c.addPeers(peers, e.NotSelector); err != nil {
		return nil, err
	}
	c.addPorts(e, peers)
	return c.checks, nil
}

// peerScope is the positive part of what a side says of its endpoints and network sets. In a
// namespaced policy it means those of the namespace, unless a namespaceSelector is given
// or nothing is said of endpoints at all.
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
	c.checks = append(c.checks, check{
		holds: func(p *packet) bool { return holds(p, c.of(p)) },
		why: func(p *packet) Mismatch {
			return Mismatch{Field: c.name + "." + field, Reason: why(p, c.of(p))}
		},
	})
}

// addNets adds the prefixes. A prefix never contains an address of the other family, so
// 0.0.0.0/0 is any IPv4 address and a list without the packet's family matches nothing.
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

// addPeers adds the selectors. With a positive part, one and the same object has to be in
// it and not be excluded. A notSelector alone excludes the addresses of those it
// selects, and lets every other pass, also one that is nobody's.
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
					return fmt.Sprintf("%s is %s, where %s is true", s.addr, o.key, notSelector)
				})
			return nil
		}
		peers = append(slices.Clip(peers), part{
			"notSelector", "!(" + notSelector + ")",
			func(o *object) bool { return !excluded(o) },
		})
	}
	if len(peers) == 0 {
		return nil
	}
	c.checks = append(c.checks, check{
		holds: func(p *packet) bool { return slices.ContainsFunc(c.of(p).objects, peers.selects) },
		why: func(p *packet) Mismatch {
			m := peers.why(c.of(p))
			m.Field = c.name + "." + m.Field
			return m
		},
	})
	return nil
}

// why says why no object of the side is in the scope.
func (s scope) why(at *side) Mismatch {
	if len(at.objects) == 0 {
		return Mismatch{
			Field:  s[len(s)-1].field,
			Reason: fmt.Sprintf("%s belongs to no endpoint and no network set", at.addr),
		}
	}
	var field string
	var reasons []string
	for _, o := range at.objects {
		i := slices.IndexFunc(s, func(p part) bool { return !p.holds(o) })
		if field == "" {
			field = s[i].field
		}
		reasons = append(reasons, fmt.Sprintf("%s, where %s is false", o.key, s[i].text))
	}
	return Mismatch{Field: field, Reason: fmt.Sprintf("%s is %s", at.addr, strings.Join(reasons, ", and "))}
}

// addPorts adds the ports. Names mean what the endpoints that hold the address, and
// are in the scope, define them to be; the scope never has the notSelector in it.
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

// portMatches reports whether the side's port is one of those given.
func portMatches(ports []policy.Port, peers scope, p *packet, s *side) bool {
	if !p.Protocol.HasPorts() {
		return false
	}
	return slices.ContainsFunc(ports, func(port policy.Port) bool {
		if port.Name == "" {
			return port.First <= s.port && s.port <= port.Last
		}
		return slices.ContainsFunc(s.objects, func(o *object) bool {
			return o.endpoint != nil && peers.selects(o) &&
				slices.Contains(o.endpoint.Ports, policy.EndpointPort{Name: port.Name, Protocol: p.Protocol, Port: s.port})
		})
	})
}

// list writes values with commas between them.
func list[T fmt.Stringer](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = v.String()
	}
	return strings.Join(texts, ", ")
}
