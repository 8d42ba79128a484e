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

func (p *Policy) equal(other Resource) bool {
	o, ok := other.(*Policy)
	return ok && p.Namespace == o.Namespace && p.Name == o.Name && p.Tier == o.Tier &&
		equalPointers(p.Order, o.Order) &&
		p.Selector == o.Selector &&
		p.NamespaceSelector == o.NamespaceSelector &&
		p.ServiceAccountSelector == o.ServiceAccountSelector &&
		slices.Equal(p.Types, o.Types) &&
		equalRules(p.Ingress, o.Ingress) && equalRules(p.Egress, o.Egress) &&
		p.Staged == o.Staged && p.ApplyOnForward == o.ApplyOnForward &&
		p.DoNotTrack == o.DoNotTrack && p.PreDNAT == o.PreDNAT &&
		slices.Equal(p.PerformanceHints, o.PerformanceHints)
}

func (t *Tier) equal(other Resource) bool {
	o, ok := other.(*Tier)
	return ok && t.Name == o.Name && t.DefaultAction == o.DefaultAction && equalPointers(t.Order, o.Order)
}

func (p *Profile) equal(other Resource) bool {
	o, ok := other.(*Profile)
	return ok && p.Name == o.Name && maps.Equal(p.LabelsToApply, o.LabelsToApply) &&
		equalRules(p.Ingress, o.Ingress) && equalRules(p.Egress, o.Egress)
}

func (n *NetworkSet) equal(other Resource) bool {
	o, ok := other.(*NetworkSet)
	return ok && n.Namespace == o.Namespace && n.Name == o.Name &&
		maps.Equal(n.Labels, o.Labels) && slices.Equal(n.Nets, o.Nets)
}

func (w *WorkloadEndpoint) equal(other Resource) bool {
	o, ok := other.(*WorkloadEndpoint)
	return ok && w.Namespace == o.Namespace && w.Name == o.Name &&
		w.Node == o.Node && w.Interface == o.Interface && w.MAC == o.MAC &&
		w.AdminState == o.AdminState &&
		slices.Equal(w.Addresses, o.Addresses) && maps.Equal(w.Labels, o.Labels) &&
		slices.Equal(w.Ports, o.Ports) && slices.Equal(w.Profiles, o.Profiles) &&
		slices.Equal(w.IPNATs, o.IPNATs) &&
		slices.Equal(w.AllowSpoofedSourcePrefixes, o.AllowSpoofedSourcePrefixes)
}

func (h *HostEndpoint) equal(other Resource) bool {
	o, ok := other.(*HostEndpoint)
	return ok && h.Name == o.Name && h.Node == o.Node && h.InterfaceName == o.InterfaceName &&
		slices.Equal(h.ExpectedIPs, o.ExpectedIPs) && maps.Equal(h.Labels, o.Labels) &&
		slices.Equal(h.Ports, o.Ports) && slices.Equal(h.Profiles, o.Profiles)
}

func (p *IPPool) equal(other Resource) bool {
	o, ok := other.(*IPPool)
	return ok && *p == *o
}

func (b *Block) equal(other Resource) bool {
	o, ok := other.(*Block)
	return ok && b.CIDR == o.CIDR && b.Node == o.Node && slices.Equal(b.Borrowed, o.Borrowed)
}

func (n *Node) equal(other Resource) bool {
	o, ok := other.(*Node)
	return ok && n.Name == o.Name && slices.Equal(n.Addresses, o.Addresses) &&
		n.IPv4VXLANTunnelAddr == o.IPv4VXLANTunnelAddr && n.IPv6VXLANTunnelAddr == o.IPv6VXLANTunnelAddr &&
		n.VXLANTunnelMACAddr == o.VXLANTunnelMACAddr && n.VXLANTunnelMACAddrV6 == o.VXLANTunnelMACAddrV6 &&
		maps.Equal(n.Labels, o.Labels)
}

func (s *ServiceBackends) equal(other Resource) bool {
	o, ok := other.(*ServiceBackends)
	return ok && s.Namespace == o.Namespace && s.Name == o.Name && s.Service == o.Service &&
		slices.Equal(s.Addresses, o.Addresses) && slices.Equal(s.Ports, o.Ports)
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
