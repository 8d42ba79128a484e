// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"bytes"
	"cmp"
	"encoding/binary"
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
	// moves are what has become of full-length addresses since hosts was brought up to date, last the latest of each address, counted from one.
	moves []hostMove
	last  map[A]int32
	// ranges are what the prefixes of atoms make.
	ranges rangeTable[A]
	// touched are classes whose members have changed in number since the groups were told.
	touched map[*class]struct{}

	hostMap ruleset.Set // without elements
	// pending has the addresses that have changed since the last flush, with the number that they had then; zero for none. With whole, all
	// must be told, and there is nothing in it.
	pending     map[A]uint32
	whole, told bool
}

// hostMove is one step of an address, and which one it had before.
type hostMove struct {
	atomStep
	before int32
}

// maxMoves is how many there may be before somebody asks.
const maxMoves = 1 << 20

func newSpace[A addrBytes](f family, hostMap, rangeMap string) *space[A] {
	head := func(name string, interval bool) ruleset.Set {
		return ruleset.Set{Name: name, Key: []ruleset.Type{addrType(f)}, Data: []ruleset.Type{ruleset.TypeClassID}, Interval: interval}
	}
	return &space[A]{
		classTable: newClassTable(f),
		atoms:      map[*atom]struct{}{}, hosts: map[A]*class{}, last: map[A]int32{}, touched: map[*class]struct{}{}, pending: map[A]uint32{}, whole: true,
		ranges:  rangeTable[A]{elements: newElementSet(head(rangeMap, true)), pending: map[A]*A{}},
		hostMap: head(hostMap, false),
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

func compareAddr[A addrBytes](a, b A) int {
	x, y := addrSlice(&a), addrSlice(&b)
	if len(x) == 4 { // the usual ones, and many
		return cmp.Compare(binary.BigEndian.Uint32(x), binary.BigEndian.Uint32(y))
	}
	return bytes.Compare(x, y)
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
	s.moves = append(s.moves, hostMove{atomStep{a, in}, s.last[addr]})
	s.last[addr] = int32(len(s.moves))
	if len(s.moves) == maxMoves {
		s.settleHosts()
	}
}

// settleHosts finds the classes of the addresses that have moved: of each once, wherever it has been on the way.
func (s *space[A]) settleHosts() {
	var steps []atomStep
	for addr, i := range s.last {
		for steps = steps[:0]; i > 0; i = s.moves[i-1].before {
			steps = append(steps, s.moves[i-1].atomStep)
		}
		own := s.hosts[addr]
		if own == nil {
			own = s.none
		}
		var next *class
		if len(steps) == 1 {
			next = s.with(own, steps[0].atom, steps[0].in)
		} else {
			next = s.after(own, steps)
		}
		if next == own {
			continue
		}
		s.leave(addr)
		own.parts--
		next.parts++
		s.touched[own] = struct{}{}
		if next == s.none {
			delete(s.hosts, addr)
		} else {
			s.hosts[addr] = next
		}
		s.enter(addr)
	}
	s.moves, s.last = nil, emptied(s.last)
}

// leave takes an address out of its class for a moment, and enter puts it into the one that it is in then.
func (s *space[A]) leave(addr A) {
	was, number := s.class(addr), uint32(0)
	if was != nil {
		number = was.number
		s.count(was, -1)
	}
	if _, ok := s.pending[addr]; !ok && !s.whole {
		s.pending[addr] = number
	}
}

func (s *space[A]) enter(addr A) {
	if now := s.class(addr); now != nil {
		s.count(now, 1)
	}
}

// include tells the addresses of an atom from others, or no longer does.
func (s *space[A]) include(a *atom, hosts func(func(A)), in bool) {
	if in {
		s.atoms[a] = struct{}{}
	} else {
		delete(s.atoms, a)
	}
	hosts(func(addr A) { s.move(addr, a, in) })
	s.includeRanges(a, in)
}

// renumber has everything told again.
func (s *space[A]) renumber() {
	s.whole, s.pending = true, emptied(s.pending)
	s.ranges.showAll()
}

// changed reports whether there may be something to flush.
func (s *space[A]) changed() bool {
	return len(s.moves)+len(s.pending)+len(s.ranges.pending)+len(s.ranges.elements.changed) > 0 || s.ranges.dirty
}

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
	s.ranges.show()
	s.ranges.elements.flush(d)
}

// changes returns how the map of addresses changes.
func (s *space[A]) changes() ruleset.ElementDelta {
	d := ruleset.ElementDelta{Set: s.hostMap.Name}
	for _, addr := range slices.SortedFunc(maps.Keys(s.pending), compareAddr[A]) {
		was, now := s.pending[addr], s.class(addr)
		switch {
		case now == nil && was > 0:
			d.Delete = append(d.Delete, hostElement(&addr, was))
		case now != nil && was != now.number:
			d.Add = append(d.Add, hostElement(&addr, now.number))
		}
	}
	return d
}

func hostElement[A addrBytes](addr *A, number uint32) ruleset.Element {
	return ruleset.Element{Key: []ruleset.Value{addrSlice(addr)}, Data: []ruleset.Value{ruleset.Uint32(number)}}
}

// kernelSet returns the map of addresses with all its elements.
func (s *space[A]) kernelSet() *ruleset.Set {
	type host struct {
		addr A
		data []ruleset.Value // of one class, shared
	}
	numbers := map[*class][]ruleset.Value{}
	hosts := make([]host, 0, len(s.hosts))
	for addr, own := range s.hosts {
		c := s.union(own, s.around(addr))
		data := numbers[c]
		if data == nil {
			data = []ruleset.Value{ruleset.Uint32(c.number)}
			numbers[c] = data
		}
		hosts = append(hosts, host{addr, data})
	}
	slices.SortFunc(hosts, func(x, y host) int { return compareAddr(x.addr, y.addr) })
	set := s.hostMap
	set.Elements = make([]ruleset.Element, len(hosts))
	keys := make([]ruleset.Value, len(hosts))
	for i := range hosts {
		keys[i] = addrSlice(&hosts[i].addr)
		set.Elements[i] = ruleset.Element{Key: keys[i : i+1 : i+1], Data: hosts[i].data}
	}
	return &set
}
