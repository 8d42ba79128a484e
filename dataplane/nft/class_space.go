// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"bytes"
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// addrBytes is an address of one of the families.
type addrBytes interface{ [4]byte | [16]byte }

// space maps the addresses of a family to their classes. In the kernel that is two maps: of full-length addresses, a hash in which
// one changes in constant time, and of ranges, for what is in a prefix and not in the other map.
type space[A addrBytes] struct {
	*classTable
	atoms map[*atom]struct{}
	// hosts has the full-length addresses of atoms, with the class that these atoms make, prefixes aside.
	hosts map[A]*class
	// ranges are disjoint and sorted.
	ranges      []classRange[A]
	dirtyRanges bool
	// touched are classes whose members have changed in number since the groups were told.
	touched map[*class]struct{}

	hostMap  ruleset.Set // without elements
	rangeMap *elementSet
	// pending has the addresses that have changed since the last flush, with the class that they had then; nil for none. With whole, all
	// must be told, and there is nothing in it.
	pending     map[A]*class
	whole, told bool
}

// classRange is an inclusive range of addresses.
type classRange[A addrBytes] struct {
	first, last A
	class       *class
}

func newSpace[A addrBytes](f family, hostMap, rangeMap string) *space[A] {
	head := func(name string, interval bool) ruleset.Set {
		return ruleset.Set{Name: name, Key: []ruleset.Type{addrType(f)}, Data: []ruleset.Type{ruleset.TypeClassID}, Interval: interval}
	}
	return &space[A]{
		classTable: newClassTable(f),
		atoms:      map[*atom]struct{}{}, hosts: map[A]*class{}, touched: map[*class]struct{}{}, pending: map[A]*class{}, whole: true,
		hostMap: head(hostMap, false), rangeMap: newElementSet(head(rangeMap, true)),
	}
}

// addrOf returns the address's bytes.
func addrOf[A addrBytes](a netip.Addr) (out A) {
	switch o := any(&out).(type) {
	case *[4]byte:
		*o = a.As4()
	case *[16]byte:
		*o = a.As16()
	}
	return out
}

func addrSlice[A addrBytes](a *A) []byte {
	switch a := any(a).(type) {
	case *[4]byte:
		return a[:]
	case *[16]byte:
		return a[:]
	}
	return nil
}

func compareAddr[A addrBytes](a, b A) int { return bytes.Compare(addrSlice(&a), addrSlice(&b)) }

// around returns the class of the prefixes that hold an address.
func (s *space[A]) around(addr A) *class {
	if len(s.ranges) == 0 {
		return s.none
	}
	i, found := slices.BinarySearchFunc(s.ranges, addr, func(r classRange[A], addr A) int { return compareAddr(r.first, addr) })
	if !found {
		i--
	}
	if i < 0 || compareAddr(s.ranges[i].last, addr) < 0 {
		return s.none
	}
	return s.ranges[i].class
}

// class returns the class that the map of addresses has for one of the hosts; nil if it is none.
func (s *space[A]) class(addr A) *class {
	own := s.hosts[addr]
	if own == nil {
		return nil
	}
	return s.union(own, s.around(addr))
}

// count notes that so many more addresses or ranges are in the class.
func (s *space[A]) count(c *class, n int) {
	c.members += n
	s.touched[c] = struct{}{}
}

// move notes that a full-length address has come to be in the atom, or is in it no longer.
func (s *space[A]) move(addr A, a *atom, in bool) {
	was := s.class(addr)
	if _, ok := s.pending[addr]; !ok && !s.whole {
		s.pending[addr] = was
	}
	own := s.hosts[addr]
	if own == nil {
		own = s.none
	}
	next := s.with(own, a, in)
	own.parts--
	next.parts++
	s.touched[own] = struct{}{}
	if next == s.none {
		delete(s.hosts, addr)
	} else {
		s.hosts[addr] = next
	}
	if was != nil {
		s.count(was, -1)
	}
	if now := s.class(addr); now != nil {
		s.count(now, 1)
	}
}

// include tells the addresses of an atom from others, or no longer does.
func (s *space[A]) include(a *atom, hosts func(func(A)), prefixes, in bool) {
	if in {
		s.atoms[a] = struct{}{}
	} else {
		delete(s.atoms, a)
	}
	hosts(func(addr A) { s.move(addr, a, in) })
	s.dirtyRanges = s.dirtyRanges || prefixes
}

// settleRanges brings the ranges up to the prefixes.
func (s *space[A]) settleRanges() {
	if !s.dirtyRanges {
		return
	}
	s.dirtyRanges = false
	now := s.divide()
	was := s.ranges
	changed := differences(was, now)
	type moved struct {
		addr  A
		class *class
	}
	var hosts []moved
	if len(changed) > 0 {
		for addr := range s.hosts {
			if within(changed, addr) {
				hosts = append(hosts, moved{addr, s.class(addr)})
			}
		}
	}
	s.ranges = now
	for _, m := range hosts {
		if _, ok := s.pending[m.addr]; !ok && !s.whole {
			s.pending[m.addr] = m.class
		}
		s.count(m.class, -1)
		s.count(s.class(m.addr), 1)
	}
	for i := range was {
		s.count(was[i].class, -1)
	}
	for i := range now {
		s.count(now[i].class, 1)
	}
}

// bound is where a range of an atom begins, or the address behind its end.
type bound[A addrBytes] struct {
	at   A
	atom *atom
	in   bool
}

// divide returns the ranges of addresses that are in the same prefixes, without those in none.
func (s *space[A]) divide() []classRange[A] {
	var bounds []bound[A]
	var open []*atom // to the last address
	for a := range s.atoms {
		for _, r := range mergeNets(a.prefixes(s.family)) {
			bounds = append(bounds, bound[A]{addrOf[A](r.first), a, true})
			if next := r.last.Next(); next.IsValid() {
				bounds = append(bounds, bound[A]{addrOf[A](next), a, false})
			} else {
				open = append(open, a)
			}
		}
	}
	slices.SortFunc(bounds, func(x, y bound[A]) int {
		return cmp.Or(compareAddr(x.at, y.at), cmp.Compare(x.atom.name, y.atom.name))
	})
	var out []classRange[A]
	c := s.none
	for i := 0; i < len(bounds); {
		at, next := bounds[i].at, c
		for ; i < len(bounds) && bounds[i].at == at; i++ {
			next = s.with(next, bounds[i].atom, bounds[i].in)
		}
		if next == c {
			continue
		}
		if c != s.none {
			out[len(out)-1].last = before(at)
		}
		if next != s.none {
			out = append(out, classRange[A]{first: at, class: next})
		}
		c = next
	}
	if len(open) > 0 {
		last := addrSlice(&out[len(out)-1].last)
		for i := range last {
			last[i] = 0xff
		}
	}
	return out
}

// before returns the address before one, which is not the first.
func before[A addrBytes](addr A) A {
	b := addrSlice(&addr)
	for i := len(b) - 1; ; i-- {
		b[i]--
		if b[i] != 0xff {
			return addr
		}
	}
}

// differences returns ranges that hold all addresses whose class is another in b than in a: those of one list
// alone. They are sorted by their first address, and may overlap.
func differences[A addrBytes](a, b []classRange[A]) (out []classRange[A]) {
	for len(a)+len(b) > 0 {
		switch {
		case len(a) > 0 && len(b) > 0 && a[0] == b[0]:
			a, b = a[1:], b[1:]
		case len(b) == 0 || len(a) > 0 && compareAddr(a[0].first, b[0].first) < 0:
			out, a = append(out, a[0]), a[1:]
		default:
			out, b = append(out, b[0]), b[1:]
		}
	}
	for i := 1; i < len(out); i++ { // The ends of one list's ranges can be behind those of later ones in the other's.
		if compareAddr(out[i].last, out[i-1].last) < 0 {
			out[i].last = out[i-1].last
		}
	}
	return out
}

// within reports whether one of the ranges holds an address. Their ends must not decrease.
func within[A addrBytes](ranges []classRange[A], addr A) bool {
	i, _ := slices.BinarySearchFunc(ranges, addr, func(r classRange[A], addr A) int { return compareAddr(r.last, addr) })
	return i < len(ranges) && compareAddr(ranges[i].first, addr) <= 0
}

// renumber has everything told again.
func (s *space[A]) renumber() { s.whole, s.pending = true, emptied(s.pending) }

// empty reports whether there is no such map.
func (s *space[A]) empty() bool { return len(s.hosts) == 0 }

// flush adds to the delta what has changed.
func (s *space[A]) flush(d *ruleset.Delta) {
	switch {
	case s.empty():
		if s.told {
			d.DeleteSets = append(d.DeleteSets, s.hostMap.Name)
		}
		s.told = false
	case !s.told || s.whole:
		d.Sets = append(d.Sets, s.kernelSet())
		s.told = true
	default:
		if e := s.changes(); len(e.Add)+len(e.Delete) > 0 {
			d.Elements = append(d.Elements, e)
		}
	}
	s.whole, s.pending = !s.told, emptied(s.pending)
	s.showRanges()
	s.rangeMap.flush(d)
}

// showRanges brings the elements of the map of ranges up to date.
func (s *space[A]) showRanges() {
	elements := make([]ruleset.Element, len(s.ranges))
	for i := range s.ranges {
		r := &s.ranges[i]
		elements[i] = ruleset.Element{Key: []ruleset.Value{addrSlice(&r.first)}, Data: []ruleset.Value{ruleset.Uint32(r.class.number)}}
		if r.last != r.first {
			elements[i].Last = addrSlice(&r.last)
		}
	}
	s.rangeMap.replace(elements)
	s.rangeMap.wanted = len(elements) > 0
}

// changes returns how the map of addresses changes.
func (s *space[A]) changes() ruleset.ElementDelta {
	d := ruleset.ElementDelta{Set: s.hostMap.Name}
	for _, addr := range slices.SortedFunc(maps.Keys(s.pending), compareAddr[A]) {
		was, now := s.pending[addr], s.class(addr)
		switch {
		case was == now:
		case now == nil:
			d.Delete = append(d.Delete, ruleset.Element{Key: []ruleset.Value{addrSlice(&addr)}, Data: []ruleset.Value{ruleset.Uint32(was.number)}})
		default:
			d.Add = append(d.Add, ruleset.Element{Key: []ruleset.Value{addrSlice(&addr)}, Data: []ruleset.Value{ruleset.Uint32(now.number)}})
		}
	}
	return d
}

// kernelSet returns the map of addresses with all its elements.
func (s *space[A]) kernelSet() *ruleset.Set {
	sorted := slices.SortedFunc(maps.Keys(s.hosts), compareAddr[A])
	set := s.hostMap
	set.Elements = make([]ruleset.Element, len(sorted))
	data := map[*class][]ruleset.Value{} // few, and shared
	keys := make([]ruleset.Value, len(sorted))
	for i := range sorted {
		c := s.class(sorted[i])
		if data[c] == nil {
			data[c] = []ruleset.Value{ruleset.Uint32(c.number)}
		}
		keys[i] = addrSlice(&sorted[i])
		set.Elements[i] = ruleset.Element{Key: keys[i : i+1 : i+1], Data: data[c]}
	}
	return &set
}
