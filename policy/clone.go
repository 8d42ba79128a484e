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
	switch r := r.(type) {
	case *Policy:
		c := *r
		c.Order = clonePointer(r.Order)
		c.Types = slices.Clone(r.Types)
		c.Ingress = cloneRules(r.Ingress)
		c.Egress = cloneRules(r.Egress)
		c.PerformanceHints = slices.Clone(r.PerformanceHints)
		return &c
	case *Tier:
		c := *r
		c.Order = clonePointer(r.Order)
		return &c
	case *Profile:
		c := *r
		c.LabelsToApply = maps.Clone(r.LabelsToApply)
		c.Ingress = cloneRules(r.Ingress)
		c.Egress = cloneRules(r.Egress)
		return &c
	case *NetworkSet:
		c := *r
		c.Labels = maps.Clone(r.Labels)
		c.Nets = slices.Clone(r.Nets)
		return &c
	case *WorkloadEndpoint:
		c := *r
		c.Addresses = slices.Clone(r.Addresses)
		c.Labels = maps.Clone(r.Labels)
		c.Ports = slices.Clone(r.Ports)
		c.Profiles = slices.Clone(r.Profiles)
		return &c
	}
	return nil
}

func cloneRules(rules []Rule) []Rule {
	c := slices.Clone(rules)
	for i := range c {
		r := &c[i]
		r.ICMP = cloneICMP(r.ICMP)
		r.NotICMP = cloneICMP(r.NotICMP)
		cloneInside(&r.Source)
		cloneInside(&r.Destination)
		if r.Metadata != nil {
			r.Metadata = &RuleMetadata{Annotations: maps.Clone(r.Metadata.Annotations)}
		}
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
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
