// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/reuse"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// rangeTable has the ranges of addresses in prefixes of predicates, each with its class. An edit of
// a prefix changes the ranges within the prefix. If many prefixes change, all ranges are computed
// again.
type rangeTable[A addrBytes] struct {
	// list has the ranges, disjoint and sorted. Addresses that are in no prefix are in no range.
	// Adjacent ranges have different classes.
	list []classRange[A]
	// edits is the number of edits since the last Update. visits is the number of full-length
	// addresses that these edits visited: see maxVisits. If dirty is set, list is out of date until
	// the next Update.
	edits, visits int
	dirty         bool
	// elements has the elements of the kernel's map. They are up to date, except for ranges that
	// begin at an address in pending. The value in pending is the end of the outdated range; nil if
	// there was none. If rewriteAll is set, all elements are out of date.
	elements   *sets.ElementSet
	pending    map[A]*A
	rewriteAll bool
}

// maxEdits limits the edits of single prefixes between two updates, because each edit shifts all
// later ranges of the list. Beyond the limit, all ranges are computed again.
const maxEdits = 256

// An edit of a large prefix may visit all full-length addresses. So the visits between two updates
// are limited. Beyond the limit, all ranges are computed again, which visits each address once.
const (
	maxVisits = 16      // the limit, for each full-length address
	minVisits = 1 << 12 // the lowest limit, which applies if there are few addresses
	// moveVisits is what an address in the edited prefix counts in addition, because its class
	// changes.
	moveVisits = 8
)

// classRange is an inclusive range of addresses.
type classRange[A addrBytes] struct {
	first, last A
	class       *Class
}

func rangeElement[A addrBytes](r *classRange[A]) ruleset.Element {
	e := ruleset.Element{
		Key:  []ruleset.Value{slices.Clone(addrSlice(&r.first))},
		Data: []ruleset.Value{ruleset.Uint32(r.class.number)},
	}
	if r.last != r.first {
		e.Last = slices.Clone(addrSlice(&r.last))
	}
	return e
}

// firstEndingAt returns the index of the first range that ends at the address or later.
func firstEndingAt[A addrBytes](ranges []classRange[A], addr A) int {
	i, _ := slices.BinarySearchFunc(ranges, addr, func(r classRange[A], addr A) int {
		return compareAddr(r.last, addr)
	})
	return i
}

// rebuildElements makes updateElements write all elements again.
func (t *rangeTable[A]) rebuildElements() { t.rewriteAll, t.pending = true, reuse.Map(t.pending) }

// updateElements brings the elements up to date. The classes must already have their numbers.
func (t *rangeTable[A]) updateElements() {
	if t.rewriteAll {
		elements := make([]ruleset.Element, len(t.list))
		for i := range t.list {
			elements[i] = rangeElement(&t.list[i])
		}
		t.elements.Replace(elements)
	}
	for first, last := range t.pending {
		if last != nil {
			t.elements.Remove(sets.ElementKey(rangeElement(&classRange[A]{first, *last, &Class{}})))
		}
		if i := firstEndingAt(t.list, first); i < len(t.list) && t.list[i].first == first {
			t.elements.Put(rangeElement(&t.list[i]))
		}
	}
	t.rewriteAll, t.pending = false, reuse.Map(t.pending)
	t.elements.Wanted = len(t.list) > 0
}

// replace replaces the ranges from index i up to j, exclusive. It records which elements are out of
// date.
func (t *rangeTable[A]) replace(i, j int, with []classRange[A]) {
	if !t.rewriteAll {
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

// prefixClass returns the class of an address by the prefixes that contain it.
func (m *addressMap[A]) prefixClass(addr A) *Class {
	ranges := m.ranges.list
	if i := firstEndingAt(ranges, addr); i < len(ranges) && compareAddr(ranges[i].first, addr) <= 0 {
		return ranges[i].class
	}
	return m.none
}

// includeRanges adds all prefixes of a predicate to the ranges, or removes them.
func (m *addressMap[A]) includeRanges(p *Predicate, in bool) {
	merged := sets.MergeNets(p.prefixes(m.family))
	if len(merged) > maxEdits {
		m.ranges.dirty = true
	}
	for _, r := range merged {
		m.setRange(addrOf[A](r.First), addrOf[A](r.Last), p, in)
	}
}

// setRange records that all addresses of a range begin to satisfy a predicate, or cease to.
func (m *addressMap[A]) setRange(first, last A, p *Predicate, in bool) {
	t := &m.ranges
	if t.edits++; t.edits > maxEdits || t.visits > max(minVisits, maxVisits*len(m.hosts)) {
		t.dirty = true
	}
	if t.dirty {
		return
	}
	hosts := m.hostsIn(first, last)
	t.visits += moveVisits * len(hosts)
	for _, addr := range hosts {
		m.beginMove(addr)
	}
	// The neighbours are included, because they may merge with the new ranges between them.
	i := max(firstEndingAt(t.list, first)-1, 0)
	j := i
	for j < len(t.list) && compareAddr(t.list[j].first, last) <= 0 {
		j++
	}
	j = min(j+1, len(t.list))
	now := m.withRange(t.list[i:j], first, last, p, in)
	for k := range t.list[i:j] {
		m.addMembers(t.list[i+k].class, -1)
	}
	for k := range now {
		m.addMembers(now[k].class, 1)
	}
	t.replace(i, j, now)
	for _, addr := range hosts {
		m.endMove(addr)
	}
}

// withRange returns the ranges that replace adjacent ranges, after the addresses from first to last
// begin to satisfy a predicate, or cease to.
func (m *addressMap[A]) withRange(old []classRange[A], first, last A, p *Predicate, in bool) (out []classRange[A]) {
	emit := func(first, last A, c *Class) {
		switch n := len(out); {
		case c == m.none:
		case n > 0 && out[n-1].class == c && out[n-1].last == prevAddr(first):
			out[n-1].last = last
		default:
			out = append(out, classRange[A]{first, last, c})
		}
	}
	next, done := first, false // first address of the changed range that was not emitted yet
	change := func(upTo A, c *Class) {
		if !done && compareAddr(next, upTo) <= 0 {
			emit(next, upTo, m.with(c, p, in))
			if done = compareAddr(upTo, last) >= 0; !done {
				next = nextAddr(upTo)
			}
		}
	}
	for _, r := range old {
		if compareAddr(r.first, first) < 0 {
			emit(r.first, minAddr(r.last, prevAddr(first)), r.class)
		} else if compareAddr(r.first, next) > 0 { // a gap
			change(minAddr(prevAddr(r.first), last), m.none)
		}
		if compareAddr(r.last, first) >= 0 {
			change(minAddr(r.last, last), r.class)
		}
		if compareAddr(r.last, last) > 0 {
			change(last, m.none)
			emit(maxAddr(r.first, nextAddr(last)), r.last, r.class)
		}
	}
	change(last, m.none)
	return out
}

// hostsIn returns the full-length addresses in a range.
func (m *addressMap[A]) hostsIn(first, last A) (out []A) {
	if n := distance(first, last); n < uint64(len(m.hosts)) {
		m.ranges.visits += int(n)
		for addr := first; ; addr = nextAddr(addr) {
			if m.hosts[addr] != nil {
				out = append(out, addr)
			}
			if addr == last {
				return out
			}
		}
	}
	m.ranges.visits += len(m.hosts)
	for addr := range m.hosts {
		if compareAddr(first, addr) <= 0 && compareAddr(addr, last) <= 0 {
			out = append(out, addr)
		}
	}
	return out
}

// updateRanges computes all ranges again if they are out of date.
func (m *addressMap[A]) updateRanges() {
	t := &m.ranges
	t.edits, t.visits = 0, 0
	if !t.dirty {
		return
	}
	t.dirty = false
	was, now := t.list, m.allRanges()
	var hosts []A
	if changed := differences(was, now); len(changed) > 0 {
		for addr := range m.hosts {
			if containsAddr(changed, addr) {
				hosts = append(hosts, addr)
			}
		}
	}
	for _, addr := range hosts {
		m.beginMove(addr)
	}
	for i := range was {
		m.addMembers(was[i].class, -1)
	}
	for i := range now {
		m.addMembers(now[i].class, 1)
	}
	t.list = now
	t.rebuildElements()
	for _, addr := range hosts {
		m.endMove(addr)
	}
}

// bound is an address from which on addresses satisfy a predicate, or from which on they do not.
type bound[A addrBytes] struct {
	at        A
	predicate *Predicate
	in        bool
}

// allRanges computes the ranges of all addresses that are in prefixes, each with its class.
func (m *addressMap[A]) allRanges() []classRange[A] {
	var bounds []bound[A]
	var open []*Predicate // one for each range that ends at the last address
	for p := range m.predicates {
		for _, r := range sets.MergeNets(p.prefixes(m.family)) {
			bounds = append(bounds, bound[A]{addrOf[A](r.First), p, true})
			if next := r.Last.Next(); next.IsValid() {
				bounds = append(bounds, bound[A]{addrOf[A](next), p, false})
			} else {
				open = append(open, p)
			}
		}
	}
	slices.SortFunc(bounds, func(x, y bound[A]) int { return compareAddr(x.at, y.at) })
	var out []classRange[A]
	c := m.none
	for i := 0; i < len(bounds); {
		at := bounds[i].at
		var edits []edit
		for ; i < len(bounds) && bounds[i].at == at; i++ {
			edits = append(edits, edit{bounds[i].predicate, bounds[i].in})
		}
		next := m.applyAll(c, edits)
		if next == c {
			continue
		}
		if c != m.none {
			out[len(out)-1].last = prevAddr(at)
		}
		if next != m.none {
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

// prevAddr returns the address before addr. addr must not be the first address of its family.
func prevAddr[A addrBytes](addr A) A {
	b := addrSlice(&addr)
	for i := len(b) - 1; ; i-- {
		b[i]--
		if b[i] != 0xff {
			return addr
		}
	}
}

// nextAddr returns the address after addr. addr must not be the last address of its family.
func nextAddr[A addrBytes](addr A) A {
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

// distance returns the distance between two addresses. If it needs more than 32 bits, it returns
// the largest value.
func distance[A addrBytes](first, last A) uint64 {
	a, b := addrSlice(&first), addrSlice(&last)
	n := len(a) - 4
	if !bytes.Equal(a[:n], b[:n]) {
		return math.MaxUint64
	}
	return uint64(binary.BigEndian.Uint32(b[n:]) - binary.BigEndian.Uint32(a[n:]))
}

// differences returns ranges that contain all addresses whose class in a differs from their class
// in b. The ranges are sorted by their first address, and may overlap.
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
	for i := 1; i < len(out); i++ { // A range of one list can end after a later range of the other list.
		if compareAddr(out[i].last, out[i-1].last) < 0 {
			out[i].last = out[i-1].last
		}
	}
	return out
}

// containsAddr reports whether one of the ranges contains an address. No range may end before the
// range in front of it.
func containsAddr[A addrBytes](ranges []classRange[A], addr A) bool {
	i := firstEndingAt(ranges, addr)
	return i < len(ranges) && compareAddr(ranges[i].first, addr) <= 0
}
