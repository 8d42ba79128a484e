// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// family is an IP version, as in names.
type family int

const (
	anyFamily family = 0
	ipv4      family = 4
	ipv6      family = 6
)

// of reports whether the address is of the family.
func (f family) of(a netip.Addr) bool { return a.Is4() == (f == ipv4) }

// ipSet is one IP set of the desired state. The kernel gets a set for each family.
type ipSet struct {
	id       dataplane.IPSetID
	typ      dataplane.IPSetType
	members  map[dataplane.Member]struct{}
	rendered []*ruleset.Set // nil after a change
	err      error          // of rendering
}

func newIPSet(e *dataplane.IPSetUpdate) *ipSet {
	s := &ipSet{id: e.ID, typ: e.Type, members: make(map[dataplane.Member]struct{}, len(e.Members))}
	for _, m := range e.Members {
		s.members[m] = struct{}{}
	}
	return s
}

func (s *ipSet) update(e *dataplane.IPSetDelta) {
	for _, m := range e.Removed {
		delete(s.members, m)
	}
	for _, m := range e.Added {
		s.members[m] = struct{}{}
	}
	s.rendered = nil
}

func (s *ipSet) clone() *ipSet {
	c := *s
	c.members = maps.Clone(s.members)
	return &c
}

// fits reports whether a set of this type may hold the member.
func (s *ipSet) fits(m dataplane.Member) bool {
	if !m.Prefix.IsValid() || m.Prefix.Addr().Is4In6() {
		return false
	}
	if s.typ == dataplane.IPSetNets {
		return m.Protocol == 0 && m.Port == 0
	}
	return m.Prefix.IsSingleIP() && m.Protocol.HasPorts() && m.Port != 0
}

// render returns the kernel's sets, one a family.
//
// It fails if the set has members that it may not have. They are left out; but since that makes negated
// matches wider, whoever refers to the set must fail too.
func (s *ipSet) render() ([]*ruleset.Set, error) {
	if s.rendered == nil {
		s.err = s.check()
		for _, f := range []family{ipv4, ipv6} {
			set := &ruleset.Set{Name: setName(s.id, s.typ, f), Key: []ruleset.Type{addrType(f)}}
			if s.typ == dataplane.IPSetPorts {
				set.Key = append(set.Key, ruleset.TypeProto, ruleset.TypeService)
				set.Elements = s.portElements(f)
			} else {
				set.Elements, set.Interval = s.netElements(f)
			}
			slices.SortFunc(set.Elements, ruleset.CompareElements)
			s.rendered = append(s.rendered, set)
		}
	}
	return s.rendered, s.err
}

func (s *ipSet) check() error {
	if s.typ != dataplane.IPSetNets && s.typ != dataplane.IPSetPorts {
		return fmt.Errorf("IP set %s: unknown type %d", s.id, s.typ)
	}
	for m := range s.members {
		if !s.fits(m) {
			return fmt.Errorf("IP set %s: it has members that do not fit its type", s.id)
		}
	}
	return nil
}

func addrType(f family) ruleset.Type {
	if f == ipv4 {
		return ruleset.TypeIPv4
	}
	return ruleset.TypeIPv6
}

func (s *ipSet) portElements(f family) []ruleset.Element {
	var out []ruleset.Element
	for m := range s.members {
		if s.fits(m) && f.of(m.Prefix.Addr()) {
			out = append(out, ruleset.Element{Key: []ruleset.Value{
				ruleset.Addr(m.Prefix.Addr()), ruleset.Byte(uint8(m.Protocol)), ruleset.Port(m.Port),
			}})
		}
	}
	return out
}

// netElements returns the family's elements and whether they need an interval set. Full-length addresses alone
// do not, and are cheaper to change. Prefixes inside others are left out, as ranges must not overlap.
func (s *ipSet) netElements(f family) (elements []ruleset.Element, interval bool) {
	var nets []netip.Prefix
	for m := range s.members {
		if s.fits(m) && f.of(m.Prefix.Addr()) {
			nets = append(nets, m.Prefix.Masked())
			interval = interval || !m.Prefix.IsSingleIP()
		}
	}
	for _, n := range uncovered(nets) {
		elements = append(elements, addrRange{n.Addr(), lastAddr(n)}.element())
	}
	return elements, interval
}

// uncovered returns the prefixes that are inside no other one, sorted. It changes its argument.
func uncovered(nets []netip.Prefix) []netip.Prefix {
	slices.SortFunc(nets, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	out := nets[:0]
	for _, n := range nets {
		if len(out) == 0 || !out[len(out)-1].Overlaps(n) {
			out = append(out, n)
		}
	}
	return out
}

// addrRange is an inclusive range of addresses.
type addrRange struct{ first, last netip.Addr }

// element returns the range as an element of a set.
func (r addrRange) element() ruleset.Element {
	e := ruleset.Element{Key: []ruleset.Value{ruleset.Addr(r.first)}}
	if r.last != r.first {
		e.Last = ruleset.Addr(r.last)
	}
	return e
}

// everything reports whether the range holds its whole family.
func (r addrRange) everything() bool {
	return r.first.IsUnspecified() && !r.last.Next().IsValid()
}

// mergeNets returns the fewest disjoint ranges that hold just what the prefixes hold.
func mergeNets(nets []netip.Prefix) []addrRange {
	var out []addrRange
	for _, n := range uncovered(slices.Clone(nets)) {
		if i := len(out) - 1; i >= 0 && out[i].last.Next() == n.Addr() {
			out[i].last = lastAddr(n)
			continue
		}
		out = append(out, addrRange{n.Addr(), lastAddr(n)})
	}
	return out
}

// lastAddr returns the last address of a masked prefix.
func lastAddr(n netip.Prefix) netip.Addr {
	b := n.Addr().AsSlice()
	for i := n.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
