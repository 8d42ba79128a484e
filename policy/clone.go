// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"
)

// Clone returns a deep copy of r, to edit while others read r. Nil stays nil.
func Clone(r Resource) Resource {
	if absent(r) {
		return nil
	}
	return r.clone()
}

func (p *Policy) clone() Resource {
	c := *p
	c.Order = clonePointer(p.Order)
	c.Types = slices.Clone(p.Types)
	c.Ingress = cloneRules(p.Ingress)
	c.Egress = cloneRules(p.Egress)
	c.PerformanceHints = slices.Clone(p.PerformanceHints)
	return &c
}

func (t *Tier) clone() Resource {
	c := *t
	c.Order = clonePointer(t.Order)
	return &c
}

func (p *Profile) clone() Resource {
	c := *p
	c.LabelsToApply = maps.Clone(p.LabelsToApply)
	c.Ingress = cloneRules(p.Ingress)
	c.Egress = cloneRules(p.Egress)
	return &c
}

func (n *NetworkSet) clone() Resource {
	c := *n
	c.Labels = maps.Clone(n.Labels)
	c.Nets = slices.Clone(n.Nets)
	return &c
}

func (w *WorkloadEndpoint) clone() Resource {
	c := *w
	c.Addresses = slices.Clone(w.Addresses)
	c.Labels = maps.Clone(w.Labels)
	c.Ports = slices.Clone(w.Ports)
	c.Profiles = slices.Clone(w.Profiles)
	c.IPNATs = slices.Clone(w.IPNATs)
	c.AllowSpoofedSourcePrefixes = slices.Clone(w.AllowSpoofedSourcePrefixes)
	return &c
}

func (h *HostEndpoint) clone() Resource {
	c := *h
	c.ExpectedIPs = slices.Clone(h.ExpectedIPs)
	c.Labels = maps.Clone(h.Labels)
	c.Ports = slices.Clone(h.Ports)
	c.Profiles = slices.Clone(h.Profiles)
	return &c
}

func (p *IPPool) clone() Resource { return clonePointer(p) }

func (b *Block) clone() Resource {
	c := *b
	c.Borrowed = slices.Clone(b.Borrowed)
	return &c
}

func (n *Node) clone() Resource {
	c := *n
	c.Addresses = slices.Clone(n.Addresses)
	c.Labels = maps.Clone(n.Labels)
	return &c
}

func (s *ServiceBackends) clone() Resource {
	c := *s
	c.Addresses = slices.Clone(s.Addresses)
	c.Ports = slices.Clone(s.Ports)
	return &c
}

func cloneRules(rules []Rule) []Rule {
	c := slices.Clone(rules)
	for i := range c {
		r := &c[i]
		r.ICMP = cloneICMP(r.ICMP)
		r.NotICMP = cloneICMP(r.NotICMP)
		r.ownHeader()
		cloneInside(&r.Source)
		cloneInside(&r.Destination)
		if r.Metadata != nil {
			r.Metadata = &RuleMetadata{Annotations: maps.Clone(r.Metadata.Annotations)}
		}
		r.Doubts = slices.Clone(r.Doubts)
	}
	return c
}

func cloneICMP(i *ICMP) *ICMP {
	if i == nil {
		return nil
	}
	return &ICMP{Type: clonePointer(i.Type), Code: clonePointer(i.Code)}
}

// cloneInside gives e, a copy, its own lists.
func cloneInside(e *EntityRule) {
	e.Nets = slices.Clone(e.Nets)
	e.NotNets = slices.Clone(e.NotNets)
	e.Ports = slices.Clone(e.Ports)
	e.NotPorts = slices.Clone(e.NotPorts)
	if s := e.ServiceAccounts; s != nil {
		e.ServiceAccounts = &ServiceAccounts{Names: slices.Clone(s.Names), Selector: s.Selector}
	}
	e.Services = clonePointer(e.Services)
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
