// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// family is an IP version, as in names.
type family int

const (
	anyFamily family = 0
	ipv4      family = 4
	ipv6      family = 6
)

func families() []family { return []family{ipv4, ipv6} }

// familyOf returns the family of an address.
func familyOf(a netip.Addr) family {
	if a.Is4() {
		return ipv4
	}
	return ipv6
}

// partKind says which members of an IP set a set of the kernel holds.
type partKind uint8

const (
	partHosts partKind = iota // full-length addresses, in a hash
	partNets                  // shorter prefixes, as disjoint ranges
	partPorts                 // address, protocol and port, in a hash
)

// The kernel has up to four sets for an IP set: addresses and prefixes of both families, of which only those exist that
// hold anything. A part is one of them.
type partKey struct {
	kind   partKind
	family family
}

// part is one kernel set of an IP set.
type part struct {
	name string
	// whole says that all of it must be told, pending what has changed otherwise: true for what was added.
	whole   bool
	pending map[dataplane.Member]bool
	// told says that the last flush left it in the table.
	told bool
}

// ipSet is one IP set of the desired state. Addresses are kept as plain bytes: there may be hundreds of thousands, and
// a batch that comes a second time must make no difference.
type ipSet struct {
	id     dataplane.IPSetID
	typ    dataplane.IPSetType
	exists bool
	hosts4 map[[4]byte]struct{}
	hosts6 map[[16]byte]struct{}
	nets4  netSet
	nets6  netSet
	ports4 map[portKey[[4]byte]]struct{}
	ports6 map[portKey[[16]byte]]struct{}
	odd    map[dataplane.Member]struct{} // what does not fit the type
	parts  map[partKey]*part
	users  map[*ruleOwner]struct{}
	// lookups knows which of the parts rules look into.
	lookups *listSets
	// asked is told of changes while rules ask by classes for the set's addresses; nil otherwise.
	asked *asked
	// shape and broken are what users were last rendered with.
	shape  setShape
	broken bool
}

type portKey[A any] struct {
	addr  A
	proto policy.Protocol
	port  uint16
}

// setShape says which parts of a set exist, and that it exists itself.
type setShape struct {
	exists         bool
	typ            dataplane.IPSetType
	hosts4, hosts6 bool
	nets4, nets6   bool
	ports4, ports6 bool
}

func newIPSet(id dataplane.IPSetID) *ipSet {
	return &ipSet{id: id, parts: map[partKey]*part{}, users: map[*ruleOwner]struct{}{}}
}

// replace gives the set its whole content.
func (s *ipSet) replace(e *dataplane.IPSetUpdate) {
	s.clear()
	s.exists, s.typ = true, e.Type
	var nets4, nets6 []netip.Prefix
	for _, m := range e.Members {
		switch kind, ok := s.kind(m); {
		case !ok:
			s.odd[m] = struct{}{}
		case kind == partNets && m.Prefix.Addr().Is4():
			nets4 = append(nets4, m.Prefix)
		case kind == partNets:
			nets6 = append(nets6, m.Prefix)
		default:
			s.put(m, kind)
		}
	}
	s.nets4, s.nets6 = newNetSet(distinct(nets4)), newNetSet(distinct(nets6))
	if s.asked != nil && len(nets4)+len(nets6) > 0 {
		s.asked.allNets()
	}
}

func distinct(nets []netip.Prefix) []netip.Prefix {
	slices.SortFunc(nets, dataplane.ComparePrefixes)
	return slices.Compact(nets)
}

// clear empties the set, and asks for all of it to be told.
func (s *ipSet) clear() {
	if s.asked != nil {
		for a := range s.hosts4 {
			s.asked.host4(a, false)
		}
		for a := range s.hosts6 {
			s.asked.host6(a, false)
		}
	}
	hadNets := len(s.nets4.sorted)+len(s.nets6.sorted) > 0
	s.hosts4, s.hosts6 = map[[4]byte]struct{}{}, map[[16]byte]struct{}{}
	s.ports4, s.ports6 = map[portKey[[4]byte]]struct{}{}, map[portKey[[16]byte]]struct{}{}
	s.nets4, s.nets6, s.odd = netSet{}, netSet{}, map[dataplane.Member]struct{}{}
	for _, p := range s.parts {
		p.whole, p.pending = true, nil
	}
	if s.asked != nil && hadNets {
		s.asked.allNets()
	}
}

// update adds and removes members. Adding one that is there, or removing one that is not, changes nothing.
func (s *ipSet) update(e *dataplane.IPSetDelta) {
	for _, m := range e.Removed {
		s.change(m, false)
	}
	for _, m := range e.Added {
		s.change(m, true)
	}
}

func (s *ipSet) change(m dataplane.Member, add bool) {
	kind, ok := s.kind(m)
	switch {
	case !ok && add:
		s.odd[m] = struct{}{}
	case !ok:
		delete(s.odd, m)
	case kind == partNets:
		nets := &s.nets6
		if m.Prefix.Addr().Is4() {
			nets = &s.nets4
		}
		change := nets.remove
		if add {
			change = nets.add
		}
		show, hide := change(m.Prefix)
		for _, n := range hide {
			s.noteNet(n, false)
		}
		for _, n := range show {
			s.noteNet(n, true)
		}
	case s.has(m, kind) != add:
		if add {
			s.put(m, kind)
		} else {
			s.take(m, kind)
		}
		s.note(kind, m, add)
	}
}

// noteNet tells that a prefix came or went that is in no other one.
func (s *ipSet) noteNet(n netip.Prefix, in bool) {
	s.note(partNets, dataplane.Member{Prefix: n}, in)
	if s.asked != nil {
		s.asked.net(n, in)
	}
}

// note keeps a change of a kernel set for the next flush. What was undone has not happened.
func (s *ipSet) note(kind partKind, m dataplane.Member, add bool) {
	p := s.part(partKey{kind, familyOf(m.Prefix.Addr())})
	if p.whole {
		return
	}
	if was, ok := p.pending[m]; ok && was != add {
		delete(p.pending, m)
		return
	}
	if p.pending == nil {
		p.pending = map[dataplane.Member]bool{}
	}
	p.pending[m] = add
}

func (s *ipSet) part(k partKey) *part {
	p := s.parts[k]
	if p == nil {
		p = &part{name: setName(s.id, k.kind, k.family), whole: true}
		s.parts[k] = p
		s.lookups.parts[p.name] = s
	}
	return p
}

// kind says where a member belongs; not ok if it has no place in a set of this type.
func (s *ipSet) kind(m dataplane.Member) (partKind, bool) {
	if !m.Prefix.IsValid() || m.Prefix.Addr().Is4In6() || m.Prefix != m.Prefix.Masked() {
		return 0, false
	}
	switch {
	case s.typ == dataplane.IPSetPorts:
		return partPorts, m.Prefix.IsSingleIP() && m.Protocol.HasPorts() && m.Port != 0
	case s.typ != dataplane.IPSetNets || m.Protocol != 0 || m.Port != 0:
		return 0, false
	case m.Prefix.IsSingleIP():
		return partHosts, true
	default:
		return partNets, true
	}
}

func port4(m dataplane.Member) portKey[[4]byte] {
	return portKey[[4]byte]{m.Prefix.Addr().As4(), m.Protocol, m.Port}
}

func port6(m dataplane.Member) portKey[[16]byte] {
	return portKey[[16]byte]{m.Prefix.Addr().As16(), m.Protocol, m.Port}
}

func (s *ipSet) put(m dataplane.Member, kind partKind) {
	switch a := m.Prefix.Addr(); {
	case kind == partHosts && a.Is4():
		s.hosts4[a.As4()] = struct{}{}
		if s.asked != nil {
			s.asked.host4(a.As4(), true)
		}
	case kind == partHosts:
		s.hosts6[a.As16()] = struct{}{}
		if s.asked != nil {
			s.asked.host6(a.As16(), true)
		}
	case a.Is4():
		s.ports4[port4(m)] = struct{}{}
	default:
		s.ports6[port6(m)] = struct{}{}
	}
}

func (s *ipSet) take(m dataplane.Member, kind partKind) {
	switch a := m.Prefix.Addr(); {
	case kind == partHosts && a.Is4():
		delete(s.hosts4, a.As4())
		if s.asked != nil {
			s.asked.host4(a.As4(), false)
		}
	case kind == partHosts:
		delete(s.hosts6, a.As16())
		if s.asked != nil {
			s.asked.host6(a.As16(), false)
		}
	case a.Is4():
		delete(s.ports4, port4(m))
	default:
		delete(s.ports6, port6(m))
	}
}

func (s *ipSet) has(m dataplane.Member, kind partKind) (ok bool) {
	switch a := m.Prefix.Addr(); {
	case kind == partHosts && a.Is4():
		_, ok = s.hosts4[a.As4()]
	case kind == partHosts:
		_, ok = s.hosts6[a.As16()]
	case a.Is4():
		_, ok = s.ports4[port4(m)]
	default:
		_, ok = s.ports6[port6(m)]
	}
	return ok
}

// shapeNow returns the shape that the content calls for.
func (s *ipSet) shapeNow() setShape {
	if !s.exists {
		return setShape{}
	}
	return setShape{
		exists: true, typ: s.typ,
		hosts4: len(s.hosts4) > 0, hosts6: len(s.hosts6) > 0,
		nets4: len(s.nets4.sorted) > 0, nets6: len(s.nets6.sorted) > 0,
		ports4: len(s.ports4) > 0, ports6: len(s.ports6) > 0,
	}
}

// has reports whether the kernel has such a set.
func (h *setShape) has(kind partKind, f family) bool {
	v4, v6 := h.hosts4, h.hosts6
	switch kind {
	case partNets:
		v4, v6 = h.nets4, h.nets6
	case partPorts:
		v4, v6 = h.ports4, h.ports6
	}
	return f == ipv4 && v4 || f == ipv6 && v6
}

// err says why nobody may refer to the set. Members that do not fit are left out of the kernel's sets; but since that makes
// negated matches wider, whoever refers to the set must fail.
func (s *ipSet) err() error {
	switch {
	case !s.exists:
		return fmt.Errorf("IP set %s does not exist", s.id)
	case s.typ != dataplane.IPSetNets && s.typ != dataplane.IPSetPorts:
		return fmt.Errorf("IP set %s: unknown type %d", s.id, s.typ)
	case len(s.odd) > 0:
		return fmt.Errorf("IP set %s: it has members that do not fit its type", s.id)
	}
	return nil
}

// settle returns the shape of the set, after whose change it reports that the users must be rendered again.
func (s *ipSet) settle() (changed bool) {
	shape, broken := s.shapeNow(), s.err() != nil
	changed = shape != s.shape || broken != s.broken
	s.shape, s.broken = shape, broken
	return changed
}

// clone returns a set with the same content that nobody has been told of.
func (s *ipSet) clone() *ipSet {
	c := newIPSet(s.id)
	c.typ, c.exists = s.typ, s.exists
	c.hosts4, c.hosts6, c.odd = maps.Clone(s.hosts4), maps.Clone(s.hosts6), maps.Clone(s.odd)
	c.ports4, c.ports6 = maps.Clone(s.ports4), maps.Clone(s.ports6)
	c.nets4, c.nets6 = s.nets4.clone(), s.nets6.clone()
	return c
}
