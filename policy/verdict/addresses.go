// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// AddressClasses divides addresses into classes, for some given endpoints. Two addresses are in one
// class if they match the same conditions in the policies, profiles and settings of these
// endpoints. AddressClasses is safe for concurrent use.
type AddressClasses struct {
	e          *Evaluator
	conditions []addressCondition
	nets       []policy.Nets
	services   []*service
	node       *node // of the first endpoint
}

// addressCondition evaluates a condition for an address, and appends the result to key.
type addressCondition func(key []byte, s *side) []byte

// AddressClasses returns the classes of addresses for some endpoints: the policies of these
// endpoints treat all addresses of a class alike. The endpoints are workload endpoints and host
// endpoints of one node.
//
// The error is always nil: only a policy that cannot be compiled would cause an error, and New
// rejects such a policy.
func (e *Evaluator) AddressClasses(endpoints ...policy.Key) (*AddressClasses, error) {
	c := &AddressClasses{e: e}
	known := map[string]bool{}
	objects := e.endpoints(endpoints)
	add := func(namespace string, lists ...[]policy.Rule) error {
		for _, list := range lists {
			for i := range list {
				if len(list[i].Doubts) > 0 {
					continue // a closed rule matches all packets or none
				}
				for _, entity := range []*policy.EntityRule{&list[i].Source, &list[i].Destination} {
					if err := c.entity(known, namespace, entity); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	for _, p := range e.selecting(endpoints...) {
		if err := add(p.Namespace, p.Ingress, p.Egress); err != nil {
			return nil, err
		}
	}
	for _, o := range objects {
		for _, name := range o.profiles {
			if p := e.profiles[name]; p != nil {
				if err := add("", p.source.Ingress, p.source.Egress); err != nil {
					return nil, err
				}
			}
		}
		if o.workload != nil {
			c.addNets(known, o.workload.AllowSpoofedSourcePrefixes)
			c.node = cmp.Or(c.node, e.nodes[o.workload.Node])
		} else {
			c.node = cmp.Or(c.node, e.nodes[o.host.Node])
		}
	}
	for _, f := range slices.Concat(e.host.FailsafeInbound, e.host.FailsafeOutbound) {
		if f.Net.IsValid() {
			c.addNets(known, policy.Nets{f.Net})
		}
	}
	return c, nil
}

// entity adds the conditions of one side of a rule.
func (c *AddressClasses) entity(known map[string]bool, namespace string, e *policy.EntityRule) error {
	c.addNets(known, e.Nets)
	c.addNets(known, e.NotNets)
	peers, err := peerScope(namespace, e)
	if err != nil {
		return err
	}
	// The inputs of the scope, see peerScope.
	id := fmt.Sprintf("%q %q %q %q", namespace, e.NamespaceSelector, e.Selector, e.NotSelector)
	if e.ServiceAccounts != nil {
		id += fmt.Sprintf(" %q %q", e.ServiceAccounts.Names, e.ServiceAccounts.Selector)
	}
	isNew := func(id string) bool {
		found := known[id]
		known[id] = true
		return !found
	}
	if (len(peers) > 0 || e.NotSelector != "") && isNew(id) {
		made := &entityChecks{of: func(p *packet) *side { return &p.source }}
		if err := made.addPeers(peers, e.NotSelector); err != nil {
			return err
		}
		c.conditions = append(c.conditions, func(key []byte, s *side) []byte {
			for _, check := range made.checks {
				key = appendBit(key, check.holds(&packet{source: *s}))
			}
			return key
		})
	}
	for _, port := range slices.Concat(e.Ports, e.NotPorts) {
		if port.Name != "" && isNew(fmt.Sprintf("port %q of %s", port.Name, id)) {
			c.conditions = append(c.conditions, func(key []byte, s *side) []byte {
				return appendNamed(key, port.Name, peers, s)
			})
		}
	}
	if e.Services != nil {
		name := e.Services.In(namespace)
		at := serviceName{name.Namespace, name.Name}
		if s := c.e.services[at]; s != nil && isNew(fmt.Sprintf("service %q", at)) {
			c.services = append(c.services, s)
			texts := s.texts()
			c.conditions = append(c.conditions, func(key []byte, at *side) []byte {
				var served []string
				for _, part := range s.parts[at.addr] {
					served = append(served, texts[part.id()])
				}
				return appendTexts(key, served)
			})
		}
	}
	return nil
}

func (c *AddressClasses) addNets(known map[string]bool, nets policy.Nets) {
	if id := fmt.Sprint("nets ", nets); len(nets) > 0 && !known[id] {
		known[id] = true
		c.nets = append(c.nets, nets)
		c.conditions = append(c.conditions, func(key []byte, s *side) []byte {
			return appendBit(key, contains(nets, s.addr))
		})
	}
}

func appendBit(key []byte, bit bool) []byte {
	if bit {
		return append(key, '1')
	}
	return append(key, '0')
}

// appendNamed appends the ports of an address that have a name.
func appendNamed(key []byte, name string, peers scope, s *side) []byte {
	var ports []string
	for _, o := range s.objects {
		for _, p := range o.ports {
			if p.Name == name && peers.selects(o) {
				ports = append(ports, fmt.Sprint(p.Protocol, "/", p.Port))
			}
		}
	}
	return appendTexts(key, ports)
}

// id identifies the ServiceBackends that have the ports.
func (p portSet) id() uintptr { return reflect.ValueOf(p).Pointer() }

// texts returns a text for each set of ports. Equal sets have equal texts. Many addresses share a
// set.
func (s *service) texts() map[uintptr]string {
	texts := map[uintptr]string{}
	for _, parts := range s.parts {
		for _, part := range parts {
			if _, known := texts[part.id()]; known {
				continue
			}
			var ports []string
			for p := range part {
				ports = append(ports, fmt.Sprint(p.Protocol, "/", p.Port))
			}
			texts[part.id()] = string(appendTexts([]byte("backend"), ports))
		}
	}
	return texts
}

func appendTexts(key []byte, texts []string) []byte {
	slices.Sort(texts)
	return append(append(append(key, '('), strings.Join(slices.Compact(texts), " ")...), ')')
}

// AppendClass appends the class of an address to key. Classes are for the endpoints that were
// passed to Evaluator.AddressClasses. If two addresses have the same family and class, these
// endpoints treat them alike. Each endpoint gives the same verdict to a flow with one address, and
// to the same flow with the other address. There is one exception. If one of the two addresses
// belongs to an endpoint, the verdicts of this endpoint on flows that it sends may differ. For
// example, the endpoint may send from its own address, but not from the other one.
func (c *AddressClasses) AppendClass(key []byte, addr netip.Addr) []byte {
	s := side{addr: addr, objects: c.e.objectsAt(addr)}
	for _, condition := range c.conditions {
		key = condition(key, &s)
	}
	if len(c.e.host.NodeEncapsulations()) > 0 {
		key = appendBit(key, c.e.nodeAddresses[addr])
	}
	return appendBit(key, c.node != nil && c.node.hasAddress(addr))
}

// Prefixes iterates over the prefixes that separate the classes. Two neighbouring addresses can be
// in different classes only if one of these prefixes begins or ends between them. The prefixes are
// in no order, and there may be duplicates.
func (c *AddressClasses) Prefixes() iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		single := func(a netip.Addr) bool { return yield(netip.PrefixFrom(a, a.BitLen())) }
		for a := range c.e.addresses {
			if !single(a) {
				return
			}
		}
		lists := slices.Clone(c.nets)
		for _, set := range c.e.sets {
			lists = append(lists, set.nets)
		}
		lists = append(lists, policy.Nets{
			netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8), netip.PrefixFrom(netip.IPv6Loopback(), 128),
		})
		for _, nets := range lists {
			for _, n := range nets {
				if !yield(n.Masked()) {
					return
				}
			}
		}
		for _, s := range c.services {
			for a := range s.parts {
				if !single(a) {
					return
				}
			}
		}
		if len(c.e.host.NodeEncapsulations()) > 0 {
			for a := range c.e.nodeAddresses {
				if a.IsValid() && !single(a) {
					return
				}
			}
		}
		if c.node == nil {
			return
		}
		for a := range c.node.addresses {
			if a.IsValid() && !single(a) {
				return
			}
		}
	}
}
