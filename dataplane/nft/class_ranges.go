// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// rangeTable says which prefixes of atoms hold an address, as ranges with a class each. A prefix that comes or goes changes the ranges
// within it; when many do, all ranges are made anew from the prefixes there are.
type rangeTable[A addrBytes] struct {
	// list is disjoint and sorted, without what is in no prefix. Neighbours that touch have different classes.
	list []classRange[A]
	// painted counts changes since the groups were told. With dirty, list is out of date until then.
	painted int
	dirty   bool
	// elements are those of the kernel's map. They lack the ranges that begin at an address in pending, which leads to the end of
	// the range that begins there in elements, nil if none does; with whole, all.
	elements *elementSet
	pending  map[A]*A
	whole    bool
}

// maxPainted is how many prefixes may come or go one by one between two flushes: each moves all ranges behind it.
const maxPainted = 256

// classRange is an inclusive range of addresses.
type classRange[A addrBytes] struct {
	first, last A
	class       *class
}

func rangeElement[A addrBytes](r *classRange[A]) ruleset.Element {
	e := ruleset.Element{Key: []ruleset.Value{slices.Clone(addrSlice(&r.first))}, Data: []ruleset.Value{ruleset.Uint32(r.class.number)}}
	if r.last != r.first {
		e.Last = slices.Clone(addrSlice(&r.last))
	}
	return e
}

// from returns the index of the first range that ends at the address or behind it.
func (t *rangeTable[A]) from(addr A) int {
	i, _ := slices.BinarySearchFunc(t.list, addr, func(r classRange[A], addr A) int { return compareAddr(r.last, addr) })
	return i
}

// showAll has all elements made anew.
func (t *rangeTable[A]) showAll() { t.whole, t.pending = true, emptied(t.pending) }

// show brings the elements up to date. The classes must have their numbers.
func (t *rangeTable[A]) show() {
	if t.whole {
		elements := make([]ruleset.Element, len(t.list))
		for i := range t.list {
			elements[i] = rangeElement(&t.list[i])
		}
		t.elements.replace(elements)
	}
	for first, last := range t.pending {
		if last != nil {
			t.elements.remove(elementKey(rangeElement(&classRange[A]{first, *last, &class{}})))
		}
		if i := t.from(first); i < len(t.list) && t.list[i].first == first {
			t.elements.put(rangeElement(&t.list[i]))
		}
	}
	t.whole, t.pending = false, emptied(t.pending)
	t.elements.wanted = len(t.list) > 0
}

// replace puts ranges in the place of others.
func (t *rangeTable[A]) replace(i, j int, with []classRange[A]) {
	if !t.whole {
		for _, r := range t.list[i:j] {
			if _, ok := t.pending[r.first]; !ok {
				t.pending[r.first] = &r.last
			}
		}
		for _, r := range with {
			if _, ok := t.pending[r.first]; !ok {
				t.pending[r.first] = nil
			}
		}
	}
	t.list = slices.Replace(t.list, i, j, with...)
}

// around returns the class of the prefixes that hold an address.
func (s *space[A]) around(addr A) *class {
	if i := s.ranges.from(addr); i < len(s.ranges.list) && compareAddr(s.ranges.list[i].first, addr) <= 0 {
		return s.ranges.list[i].class
	}
	return s.none
}

// includeRanges has the prefixes of an atom make ranges, or no longer.
func (s *space[A]) includeRanges(a *atom, in bool) {
	merged := mergeNets(a.prefixes(s.family))
	if len(merged) > maxPainted {
		s.ranges.dirty = true
	}
	for _, r := range merged {
		s.paint(addrOf[A](r.first), addrOf[A](r.last), a, in)
	}
}

// paint says that one of the atom's prefixes holds the addresses of a range, or that none does any more.
func (s *space[A]) paint(first, last A, a *atom, in bool) {
	t := &s.ranges
	if t.painted++; t.painted > maxPainted {
		t.dirty = true
	}
	if t.dirty {
		return
	}
	hosts := s.hostsIn(first, last)
	for _, addr := range hosts {
		s.leave(addr)
	}
	// Both neighbours too: they may become one with what is between them.
	i := max(t.from(first)-1, 0)
	j := i
	for j < len(t.list) && compareAddr(t.list[j].first, last) <= 0 {
		j++
	}
	j = min(j+1, len(t.list))
	now := s.repaint(t.list[i:j], first, last, a, in)
	for k := range t.list[i:j] {
		s.count(t.list[i+k].class, -1)
	}
	for k := range now {
		s.count(now[k].class, 1)
	}
	t.replace(i, j, now)
	for _, addr := range hosts {
		s.enter(addr)
	}
}

// repaint returns what neighbouring ranges become when the atom comes to hold what is between two addresses, or ceases to.
func (s *space[A]) repaint(old []classRange[A], first, last A, a *atom, in bool) (out []classRange[A]) {
	emit := func(first, last A, c *class) {
		switch n := len(out); {
		case c == s.none:
		case n > 0 && out[n-1].class == c && out[n-1].last == before(first):
			out[n-1].last = last
		default:
			out = append(out, classRange[A]{first, last, c})
		}
	}
	next, done := first, false // of the painted range, what has not been emitted
	paint := func(upTo A, c *class) {
		if !done && compareAddr(next, upTo) <= 0 {
			emit(next, upTo, s.with(c, a, in))
			if done = compareAddr(upTo, last) >= 0; !done {
				next = after(upTo)
			}
		}
	}
	for _, r := range old {
		if compareAddr(r.first, first) < 0 {
			emit(r.first, minAddr(r.last, before(first)), r.class)
		} else if compareAddr(r.first, next) > 0 { // a gap
			paint(minAddr(before(r.first), last), s.none)
		}
		if compareAddr(r.last, first) >= 0 {
			paint(minAddr(r.last, last), r.class)
		}
		if compareAddr(r.last, last) > 0 {
			paint(last, s.none)
			emit(maxAddr(r.first, after(last)), r.last, r.class)
		}
	}
	paint(last, s.none)
	return out
}

// hostsIn returns the full-length addresses in a range.
func (s *space[A]) hostsIn(first, last A) (out []A) {
	if n := distance(first, last); n < uint64(len(s.hosts)) {
		for addr := first; ; addr = after(addr) {
			if s.hosts[addr] != nil {
				out = append(out, addr)
			}
			if addr == last {
				return out
			}
		}
	}
	for addr := range s.hosts {
		if compareAddr(first, addr) <= 0 && compareAddr(addr, last) <= 0 {
			out = append(out, addr)
		}
	}
	return out
}

// settleRanges brings the ranges up to the prefixes.
func (s *space[A]) settleRanges() {
	t := &s.ranges
	t.painted = 0
	if !t.dirty {
		return
	}
	t.dirty = false
	was, now := t.list, s.divide()
	var hosts []A
	if changed := differences(was, now); len(changed) > 0 {
		for addr := range s.hosts {
			if within(changed, addr) {
				hosts = append(hosts, addr)
			}
		}
	}
	for _, addr := range hosts {
		s.leave(addr)
	}
	for i := range was {
		s.count(was[i].class, -1)
	}
	for i := range now {
		s.count(now[i].class, 1)
	}
	t.list = now
	t.showAll()
	for _, addr := range hosts {
		s.enter(addr)
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
	slices.SortFunc(bounds, func(x, y bound[A]) int { return compareAddr(x.at, y.at) })
	var out []classRange[A]
	c := s.none
	for i := 0; i < len(bounds); {
		at := bounds[i].at
		var steps []atomStep
		for ; i < len(bounds) && bounds[i].at == at; i++ {
			steps = append(steps, atomStep{bounds[i].atom, bounds[i].in})
		}
		next := s.after(c, steps)
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

// after returns the address behind one, which is not the last.
func after[A addrBytes](addr A) A {
	b := addrSlice(&addr)
	for i := len(b) - 1; ; i-- {
		b[i]++
		if b[i] != 0 {
			return addr
		}
	}
}

func minAddr[A addrBytes](a, b A) A {
	if compareAddr(a, b) < 0 {
		return a
	}
	return b
}

func maxAddr[A addrBytes](a, b A) A {
	if compareAddr(a, b) > 0 {
		return a
	}
	return b
}

// distance returns how far two addresses are apart, or the most there is.
func distance[A addrBytes](first, last A) uint64 {
	a, b := addrSlice(&first), addrSlice(&last)
	n := len(a) - 4
	if !bytes.Equal(a[:n], b[:n]) {
		return math.MaxUint64
	}
	return uint64(binary.BigEndian.Uint32(b[n:]) - binary.BigEndian.Uint32(a[n:]))
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
