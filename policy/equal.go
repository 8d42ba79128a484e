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
	return a.equal(b)
}

func equalRules(a, b []Rule) bool {
	return slices.EqualFunc(a, b, func(x, y Rule) bool { return x.equal(&y) })
}

func (r *Rule) equal(o *Rule) bool {
	return r.Action == o.Action && r.IPVersion == o.IPVersion &&
		r.Protocol == o.Protocol && r.NotProtocol == o.NotProtocol &&
		r.ICMP.Equal(o.ICMP) && r.NotICMP.Equal(o.NotICMP) &&
		r.EqualHeader(&o.HeaderMatch) &&
		r.Source.equal(&o.Source) && r.Destination.equal(&o.Destination) &&
		r.Metadata.equal(o.Metadata) && slices.Equal(r.Doubts, o.Doubts)
}

// Equal reports whether the two have the same type and code. Nil equals only nil.
func (i *ICMP) Equal(o *ICMP) bool {
	if i == nil || o == nil {
		return i == o
	}
	return equalPointers(i.Type, o.Type) && equalPointers(i.Code, o.Code)
}

func (e *EntityRule) equal(o *EntityRule) bool {
	return slices.Equal(e.Nets, o.Nets) && slices.Equal(e.NotNets, o.NotNets) &&
		e.Selector == o.Selector && e.NotSelector == o.NotSelector &&
		e.NamespaceSelector == o.NamespaceSelector &&
		e.ServiceAccounts.equal(o.ServiceAccounts) && equalPointers(e.Services, o.Services) &&
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
