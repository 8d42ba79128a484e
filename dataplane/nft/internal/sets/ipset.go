// SPDX-License-Identifier: Apache-2.0

package sets

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// Kind is the kind of a member of an IP set. In the kernel, members of different kinds are in
// different sets.
type Kind uint8

// The kinds of members.
const (
	Hosts Kind = iota // full-length addresses, in a hash
	Nets              // shorter prefixes, as disjoint ranges
	Ports             // address, protocol and port, in a hash
)

// partKey identifies one of the sets that an IP set has in the kernel.
type partKey struct {
	kind   Kind
	family Family
}

// part is one of the sets that an IP set has in the kernel.
type part struct {
	name string
	// pending has the members that have changed since the last Flush; true means added. If
	// rewriteAll is set, all members may have changed.
	rewriteAll bool
	pending    map[dataplane.Member]bool
	// installed is set if the table had the set after the last Flush.
	installed bool
}

// IPSet is an IP set of the desired state. In the kernel, it has a separate set for the members of
// each Kind and family, but only while rules reference that set.
type IPSet struct {
	ID     dataplane.IPSetID
	typ    dataplane.IPSetType
	exists bool
	members
	parts map[partKey]*part
	// lists has the number of rules that reference each part.
	lists *Lists
	// watcher is called when addresses and prefixes change. It may be nil.
	watcher Watcher
	// shape and broken are results of the last call of ComputeShape. The field broken is set if
	// rules must not refer to the IP set. The method err returns the reason.
	shape  Shape
	broken bool
}

// Watcher receives each change of an IP set's addresses and prefixes.
type Watcher interface {
	// Host4 and Host6 are called when an address is added (in == true) or removed (in == false).
	Host4(addr [4]byte, in bool)
	Host6(addr [16]byte, in bool)
	// Net is called when a prefix becomes an outermost prefix of the set (in == true), or stops
	// being one (in == false). A prefix is outermost if no other prefix of the set contains it.
	Net(n netip.Prefix, in bool)
	// AllNets is called if any prefixes may have changed.
	AllNets()
}

// members has the members of an IP set as plain bytes, because there may be hundreds of thousands.
type members struct {
	v4        familyMembers[[4]byte]
	v6        familyMembers[[16]byte]
	malformed map[dataplane.Member]struct{} // members that do not fit the type of the set
}

// familyMembers has the members of one family.
type familyMembers[A [4]byte | [16]byte] struct {
	hosts map[A]struct{}
	ports map[portKey[A]]struct{}
	nets  netSet
}

func newFamilyMembers[A [4]byte | [16]byte]() familyMembers[A] {
	return familyMembers[A]{hosts: map[A]struct{}{}, ports: map[portKey[A]]struct{}{}}
}

// set adds or removes an address, or one of its ports. It reports whether the members have changed.
func (f *familyMembers[A]) set(a A, m dataplane.Member, kind Kind, in bool) (changed bool) {
	if kind == Hosts {
		return setMember(f.hosts, a, in)
	}
	return setMember(f.ports, portKey[A]{a, m.Protocol, m.Port}, in)
}

func setMember[K comparable](m map[K]struct{}, k K, in bool) (changed bool) {
	n := len(m)
	if in {
		m[k] = struct{}{}
	} else {
		delete(m, k)
	}
	return len(m) != n
}

func (f *familyMembers[A]) clone() familyMembers[A] {
	return familyMembers[A]{maps.Clone(f.hosts), maps.Clone(f.ports), f.nets.clone()}
}

type portKey[A any] struct {
	addr  A
	proto policy.Protocol
	port  uint16
}

// Shape has the properties of an IP set that decide how rules with the IP set are written. These
// are its existence, its type and, for each Kind and family, whether it has such members.
type Shape struct {
	exists         bool
	typ            dataplane.IPSetType
	hosts4, hosts6 bool
	nets4, nets6   bool
	ports4, ports6 bool
}

// NewIPSet returns an IP set that does not exist yet. In the kernel, the IP set can have several
// sets. For each of them, the Lists count the rules that reference it.
func NewIPSet(id dataplane.IPSetID, lists *Lists) *IPSet {
	return &IPSet{ID: id, parts: map[partKey]*part{}, lists: lists}
}

// Exists reports whether the set exists. Rules that refer to a set that does not exist cannot be
// rendered.
func (s *IPSet) Exists() bool { return s.exists }

// Gone reports whether the IP set does not exist and the table no longer has any set for it.
func (s *IPSet) Gone() bool { return !s.exists && len(s.parts) == 0 }

// Watch sets the watcher that is called for changes from now on. It may be nil.
func (s *IPSet) Watch(w Watcher) { s.watcher = w }

// Remove removes all members. After that, the set does not exist.
func (s *IPSet) Remove() {
	s.clear()
	s.exists = false
}

// Replace replaces all members. After that, the set exists.
func (s *IPSet) Replace(e *dataplane.IPSetUpdate) {
	s.clear()
	s.exists, s.typ = true, e.Type
	var nets4, nets6 []netip.Prefix
	for _, m := range e.Members {
		switch kind, ok := s.kind(m); {
		case !ok:
			s.malformed[m] = struct{}{}
		case kind == Nets && m.Prefix.Addr().Is4():
			nets4 = append(nets4, m.Prefix)
		case kind == Nets:
			nets6 = append(nets6, m.Prefix)
		default:
			s.set(m, kind, true)
		}
	}
	s.v4.nets, s.v6.nets = newNetSet(Distinct(nets4)), newNetSet(Distinct(nets6))
	if s.watcher != nil && len(nets4)+len(nets6) > 0 {
		s.watcher.AllNets()
	}
}

// Distinct sorts prefixes and removes duplicates. It changes its argument.
func Distinct(nets []netip.Prefix) []netip.Prefix {
	slices.SortFunc(nets, dataplane.ComparePrefixes)
	return slices.Compact(nets)
}

// clear removes all members.
func (s *IPSet) clear() {
	if s.watcher != nil {
		for a := range s.v4.hosts {
			s.watcher.Host4(a, false)
		}
		for a := range s.v6.hosts {
			s.watcher.Host6(a, false)
		}
	}
	hadNets := len(s.v4.nets.sorted)+len(s.v6.nets.sorted) > 0
	s.members = members{newFamilyMembers[[4]byte](), newFamilyMembers[[16]byte](), map[dataplane.Member]struct{}{}}
	for _, p := range s.parts {
		p.rewriteAll, p.pending = true, nil
	}
	if s.watcher != nil && hadNets {
		s.watcher.AllNets()
	}
}

// Update adds and removes members. It ignores an added member that the set already has, and a
// removed member that the set does not have.
func (s *IPSet) Update(e *dataplane.IPSetDelta) {
	for _, m := range e.Removed {
		s.change(m, false)
	}
	for _, m := range e.Added {
		s.change(m, true)
	}
}

func (s *IPSet) change(m dataplane.Member, add bool) {
	kind, ok := s.kind(m)
	switch {
	case !ok && add:
		s.malformed[m] = struct{}{}
	case !ok:
		delete(s.malformed, m)
	case kind == Nets:
		nets := &s.v6.nets
		if m.Prefix.Addr().Is4() {
			nets = &s.v4.nets
		}
		change := nets.remove
		if add {
			change = nets.add
		}
		recordAll := func(nets []netip.Prefix, in bool) {
			for _, n := range nets {
				s.record(Nets, dataplane.Member{Prefix: n}, in)
				if s.watcher != nil {
					s.watcher.Net(n, in)
				}
			}
		}
		show, hide := change(m.Prefix)
		recordAll(hide, false)
		recordAll(show, true)
	case s.set(m, kind, add):
		s.record(kind, m, add)
	}
}

// record records a change of a kernel set for the next Flush. A change and its reverse cancel each
// other.
func (s *IPSet) record(kind Kind, m dataplane.Member, add bool) {
	p := s.part(partKey{kind, FamilyOf(m.Prefix.Addr())})
	if p.rewriteAll {
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

func (s *IPSet) part(k partKey) *part {
	p := s.parts[k]
	if p == nil {
		p = &part{name: setName(s.ID, k.kind, k.family), rewriteAll: true}
		s.parts[k] = p
		s.lists.parts[p.name] = s
	}
	return p
}

// kind returns the kind of a member. If the member does not fit the type of the set, ok is false.
func (s *IPSet) kind(m dataplane.Member) (Kind, bool) {
	if !m.Prefix.IsValid() || m.Prefix.Addr().Is4In6() || m.Prefix != m.Prefix.Masked() {
		return 0, false
	}
	switch {
	case s.typ == dataplane.IPSetPorts:
		return Ports, m.Prefix.IsSingleIP() && m.Protocol.HasPorts() && m.Port != 0
	case s.typ != dataplane.IPSetNets || m.Protocol != 0 || m.Port != 0:
		return 0, false
	case m.Prefix.IsSingleIP():
		return Hosts, true
	default:
		return Nets, true
	}
}

// set adds or removes an address, or one of its ports. It reports whether the members have changed.
func (s *IPSet) set(m dataplane.Member, kind Kind, in bool) (changed bool) {
	a := m.Prefix.Addr()
	if a.Is4() {
		changed = s.v4.set(a.As4(), m, kind, in)
	} else {
		changed = s.v6.set(a.As16(), m, kind, in)
	}
	switch {
	case !changed || kind != Hosts || s.watcher == nil:
	case a.Is4():
		s.watcher.Host4(a.As4(), in)
	default:
		s.watcher.Host6(a.As16(), in)
	}
	return changed
}

// shapeNow returns the shape for the current members.
func (s *IPSet) shapeNow() Shape {
	if !s.exists {
		return Shape{}
	}
	return Shape{
		exists: true, typ: s.typ,
		hosts4: len(s.v4.hosts) > 0, hosts6: len(s.v6.hosts) > 0,
		nets4: len(s.v4.nets.sorted) > 0, nets6: len(s.v6.nets.sorted) > 0,
		ports4: len(s.v4.ports) > 0, ports6: len(s.v6.ports) > 0,
	}
}

// Lookup returns the name of the kernel's set with the members of one kind and family. If there
// were no such members at the last call of ComputeShape, ok is false.
func (s *IPSet) Lookup(kind Kind, f Family) (name string, ok bool) {
	if !s.shape.has(kind, f) {
		return "", false
	}
	return s.part(partKey{kind, f}).name, true
}

// Shape returns the Shape that the last call of ComputeShape found.
func (s *IPSet) Shape() Shape { return s.shape }

// Nets returns the prefixes of a family that have more than one address, sorted. The caller must
// not change them.
func (s *IPSet) Nets(f Family) []netip.Prefix {
	if f == IPv4 {
		return s.v4.nets.sorted
	}
	return s.v6.nets.sorted
}

// EachHost calls f with each full-length address of a family.
func EachHost[A [4]byte | [16]byte](s *IPSet, f func(A)) {
	switch f := any(f).(type) {
	case func([4]byte):
		for a := range s.v4.hosts {
			f(a)
		}
	case func([16]byte):
		for a := range s.v6.hosts {
			f(a)
		}
	}
}

// has reports whether the kernel has a set of the kind and family.
func (h *Shape) has(kind Kind, f Family) bool {
	v4, v6 := h.hosts4, h.hosts6
	switch kind {
	case Nets:
		v4, v6 = h.nets4, h.nets6
	case Ports:
		v4, v6 = h.ports4, h.ports6
	}
	return f == IPv4 && v4 || f == IPv6 && v6
}

// err returns an error if rules must not refer to the set. The reason may be a member that does not
// fit the type of the set: no set of the kernel has it. A rule that matches addresses outside of
// the set would then match this member, too.
func (s *IPSet) err() error {
	switch {
	case !s.exists:
		return fmt.Errorf("IP set %s does not exist", s.ID)
	case s.typ != dataplane.IPSetNets && s.typ != dataplane.IPSetPorts:
		return fmt.Errorf("IP set %s: unknown type %d", s.ID, s.typ)
	case len(s.malformed) > 0:
		return fmt.Errorf("IP set %s: it has members that do not fit its type", s.ID)
	}
	return nil
}

// Check returns an error if rules must not refer to the set, or if the set is not of the given
// type.
func (s *IPSet) Check(typ dataplane.IPSetType) error {
	if err := s.err(); err != nil {
		return err
	}
	if s.typ != typ {
		return fmt.Errorf("IP set %s is of type %d, want %d", s.ID, s.typ, typ)
	}
	return nil
}

// ComputeShape computes the Shape of the IP set again, from its current members. The Shape decides
// how rules that refer to the IP set are written. ComputeShape reports whether these rules must be
// rendered again.
func (s *IPSet) ComputeShape() (changed bool) {
	shape, broken := s.shapeNow(), s.err() != nil
	changed = shape != s.shape || broken != s.broken
	s.shape, s.broken = shape, broken
	return changed
}

// Clone returns an IP set with the same members. The clone has no sets in any table yet.
func (s *IPSet) Clone(lists *Lists) *IPSet {
	c := NewIPSet(s.ID, lists)
	c.typ, c.exists = s.typ, s.exists
	c.members = members{s.v4.clone(), s.v6.clone(), maps.Clone(s.malformed)}
	return c
}
