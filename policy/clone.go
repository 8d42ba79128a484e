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
