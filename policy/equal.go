// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"maps"
	"slices"
)

// Equal reports whether two resources are of the same kind and say the same, field by
// field; a list or map without entries equals a nil one. Values are compared as they
// are written: make both Canonical first where that may differ. Two nil resources are equal.
func Equal(a, b Resource) bool {
	if absent(a) || absent(b) {
		return absent(a) && absent(b)
	}
	switch a := a.(type) {
	case *Policy:
		b, ok := b.(*Policy)
		return ok && a.equal(b)
	case *Tier:
		b, ok := b.(*Tier)
		return ok && a.Name == b.Name && a.DefaultAction == b.DefaultAction && equalPointers(a.Order, b.Order)
	case *Profile:
		b, ok := b.(*Profile)
		return ok && a.Name == b.Name && maps.Equal(a.LabelsToApply, b.LabelsToApply) &&
			equalRules(a.Ingress, b.Ingress) && equalRules(a.Egress, b.Egress)
	case *NetworkSet:
		b, ok := b.(*NetworkSet)
		return ok && a.Namespace == b.Namespace && a.Name == b.Name &&
			maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Nets, b.Nets)
	case *WorkloadEndpoint:
		b, ok := b.(*WorkloadEndpoint)
		return ok && a.equal(b)
	}
	return false
}

func (p *Policy) equal(o *Policy) bool {
	return p.Namespace == o.Namespace && p.Name == o.Name && p.Tier == o.Tier &&
		equalPointers(p.Order, o.Order) &&
		p.Selector == o.Selector &&
		p.NamespaceSelector == o.NamespaceSelector &&
		p.ServiceAccountSelector == o.ServiceAccountSelector &&
		slices.Equal(p.Types, o.Types) &&
		equalRules(p.Ingress, o.Ingress) && equalRules(p.Egress, o.Egress) &&
		p.Staged == o.Staged &&
		slices.Equal(p.PerformanceHints, o.PerformanceHints)
}

func (w *WorkloadEndpoint) equal(o *WorkloadEndpoint) bool {
	return w.Namespace == o.Namespace && w.Name == o.Name &&
		w.Node == o.Node && w.Interface == o.Interface && w.MAC == o.MAC &&
		w.AdminState == o.AdminState &&
		slices.Equal(w.Addresses, o.Addresses) && maps.Equal(w.Labels, o.Labels) &&
		slices.Equal(w.Ports, o.Ports) && slices.Equal(w.Profiles, o.Profiles)
}

func equalRules(a, b []Rule) bool {
	return slices.EqualFunc(a, b, func(x, y Rule) bool { return x.equal(&y) })
}

func (r *Rule) equal(o *Rule) bool {
	return r.Action == o.Action && r.IPVersion == o.IPVersion &&
		r.Protocol == o.Protocol && r.NotProtocol == o.NotProtocol &&
		r.ICMP.equal(o.ICMP) && r.NotICMP.equal(o.NotICMP) &&
		r.Source.equal(&o.Source) && r.Destination.equal(&o.Destination) &&
		r.Metadata.equal(o.Metadata)
}

func (i *ICMP) equal(o *ICMP) bool {
	if i == nil || o == nil {
		return i == o
	}
	return equalPointers(i.Type, o.Type) && equalPointers(i.Code, o.Code)
}

func (e *EntityRule) equal(o *EntityRule) bool {
	return slices.Equal(e.Nets, o.Nets) && slices.Equal(e.NotNets, o.NotNets) &&
		e.Selector == o.Selector && e.NotSelector == o.NotSelector &&
		e.NamespaceSelector == o.NamespaceSelector &&
		e.ServiceAccounts.equal(o.ServiceAccounts) &&
		slices.Equal(e.Ports, o.Ports) && slices.Equal(e.NotPorts, o.NotPorts)
}

func (s *ServiceAccounts) equal(o *ServiceAccounts) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Selector == o.Selector && slices.Equal(s.Names, o.Names)
}

func (m *RuleMetadata) equal(o *RuleMetadata) bool {
	if m == nil || o == nil {
		return m == o
	}
	return maps.Equal(m.Annotations, o.Annotations)
}

func equalPointers[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
