// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/reuse"
	"github.com/wayleave/wayleave/dataplane/nft/internal/sets"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// addrBytes has the bytes of an address of one of the families.
type addrBytes interface{ [4]byte | [16]byte }

// addressMap maps the addresses of a family to their classes. The kernel has two maps for this: a
// hash of full-length addresses, and intervals for all other addresses. A change of one full-length
// address takes constant time.
type addressMap[A addrBytes] struct {
	*classIndex
	predicates map[*Predicate]struct{}
	// hosts has the full-length addresses of predicates. The value is the class to which the
	// address would belong if there were no prefixes.
	hosts map[A]*Class
	// hostEdits are edits that are not applied to hosts yet. last has, for each address, the index
	// of its latest edit, counted from one.
	hostEdits []hostEdit
	last      map[A]int32
	// ranges has the classes of the prefixes of predicates.
	ranges rangeTable[A]
	// resized has the classes whose number of members has changed since the last Update.
	resized map[*Class]struct{}

	hostMap ruleset.Set // without elements
	// pending has the addresses that have changed since the last flush, with the numbers that they
	// had before; zero for none. While rewriteAll is set, pending is empty: the next flush writes
	// all addresses.
	pending    map[A]uint32
	rewriteAll bool
	// inKernel is set if the kernel has the map.
	inKernel bool
}

// hostEdit is an edit of a full-length address. prev is the index of the previous edit of the same
// address, counted from one. It is zero if there is none.
type hostEdit struct {
	edit
	prev int32
}

// maxHostEdits limits the number of edits that are not applied yet.
const maxHostEdits = 1 << 20

func newAddressMap[A addrBytes](f sets.Family, hostMap, rangeMap string) *addressMap[A] {
	head := func(name string, interval bool) ruleset.Set {
		return ruleset.Set{
			Name: name, Key: []ruleset.Type{sets.AddrType(f)}, Data: []ruleset.Type{ruleset.TypeClassID},
			Interval: interval, DeleteAfterGrace: true,
		}
	}
	return &addressMap[A]{
		classIndex: newClassIndex(f),
		predicates: map[*Predicate]struct{}{}, hosts: map[A]*Class{}, last: map[A]int32{},
		resized: map[*Class]struct{}{}, pending: map[A]uint32{}, rewriteAll: true,
		ranges:  rangeTable[A]{elements: sets.NewElementSet(head(rangeMap, true)), pending: map[A]*A{}},
		hostMap: head(hostMap, false),
	}
}

// addrOf returns the bytes of an address.
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
	if len(x) == 4 { // a faster comparison for IPv4
		return cmp.Compare(binary.BigEndian.Uint32(x), binary.BigEndian.Uint32(y))
	}
	return bytes.Compare(x, y)
}

// class returns the class of a full-length address that is in the kernel's map. If the map lacks
// the address, it returns nil.
func (m *addressMap[A]) class(addr A) *Class {
	own := m.hosts[addr]
	if own == nil {
		return nil
	}
	return m.union(own, m.prefixClass(addr))
}

// addMembers adds n to the number of members of a class.
func (m *addressMap[A]) addMembers(c *Class, n int) {
	c.members += n
	m.resized[c] = struct{}{}
}

// editHost records that a full-length address begins to satisfy a predicate, or ceases to.
func (m *addressMap[A]) editHost(addr A, p *Predicate, in bool) {
	m.hostEdits = append(m.hostEdits, hostEdit{edit{p, in}, m.last[addr]})
	m.last[addr] = int32(len(m.hostEdits))
	if len(m.hostEdits) == maxHostEdits {
		m.updateHosts()
	}
}

// updateHosts applies the edits. An address with many edits changes its class only once.
func (m *addressMap[A]) updateHosts() {
	var edits []edit
	for addr, i := range m.last {
		for edits = edits[:0]; i > 0; i = m.hostEdits[i-1].prev {
			edits = append(edits, m.hostEdits[i-1].edit)
		}
		own := m.hosts[addr]
		if own == nil {
			own = m.none
		}
		var next *Class
		if len(edits) == 1 {
			next = m.with(own, edits[0].predicate, edits[0].in)
		} else {
			next = m.applyAll(own, edits)
		}
		if next == own {
			continue
		}
		m.beginMove(addr)
		own.hostRefs--
		next.hostRefs++
		m.resized[own] = struct{}{}
		if next == m.none {
			delete(m.hosts, addr)
		} else {
			m.hosts[addr] = next
		}
		m.endMove(addr)
	}
	m.hostEdits, m.last = nil, reuse.Map(m.last)
}

// beginMove removes an address from its class. A call of endMove must follow.
func (m *addressMap[A]) beginMove(addr A) {
	was, number := m.class(addr), uint32(0)
	if was != nil {
		number = was.number
		m.addMembers(was, -1)
	}
	if _, ok := m.pending[addr]; !ok && !m.rewriteAll {
		m.pending[addr] = number
	}
}

// endMove adds an address to its new class, after beginMove.
func (m *addressMap[A]) endMove(addr A) {
	if now := m.class(addr); now != nil {
		m.addMembers(now, 1)
	}
}

// include adds a predicate with all its addresses to the map, or removes it.
func (m *addressMap[A]) include(p *Predicate, in bool) {
	if in {
		m.predicates[p] = struct{}{}
	} else {
		delete(m.predicates, p)
	}
	eachHost(p, m.family, func(addr A) { m.editHost(addr, p, in) })
	m.includeRanges(p, in)
}

// renumber makes the next flush write all elements.
func (m *addressMap[A]) renumber() {
	m.rewriteAll, m.pending = true, reuse.Map(m.pending)
	m.ranges.rebuildElements()
}

// changed reports whether flush may have changes to append.
func (m *addressMap[A]) changed() bool {
	return len(m.hostEdits)+len(m.pending)+len(m.ranges.pending)+m.ranges.elements.Changed() > 0 || m.ranges.dirty
}

// empty reports whether there are no full-length addresses.
func (m *addressMap[A]) empty() bool { return len(m.hosts) == 0 }

// flush appends the changes since the last flush to the delta.
func (m *addressMap[A]) flush(d *ruleset.Delta) {
	switch {
	case m.empty():
		if m.inKernel {
			d.DeleteSets = append(d.DeleteSets, m.hostMap.Name)
		}
		m.inKernel = false
	case !m.inKernel || m.rewriteAll:
		d.Sets = append(d.Sets, m.kernelSet())
		m.inKernel = true
	default:
		if e := m.changes(); len(e.Add)+len(e.Delete) > 0 {
			d.Elements = append(d.Elements, e)
		}
	}
	m.rewriteAll, m.pending = !m.inKernel, reuse.Map(m.pending)
	m.ranges.updateElements()
	m.ranges.elements.Flush(d)
}

// changes returns the changes of the kernel's map of full-length addresses since the last flush.
func (m *addressMap[A]) changes() ruleset.ElementDelta {
	d := ruleset.ElementDelta{Set: m.hostMap.Name}
	for _, addr := range slices.SortedFunc(maps.Keys(m.pending), compareAddr[A]) {
		was, now := m.pending[addr], m.class(addr)
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

// kernelSet returns the kernel's map of full-length addresses, with all its elements.
func (m *addressMap[A]) kernelSet() *ruleset.Set {
	type host struct {
		addr A
		data []ruleset.Value // addresses of one class share it
	}
	numbers := map[*Class][]ruleset.Value{}
	hosts := make([]host, 0, len(m.hosts))
	for addr, own := range m.hosts {
		c := m.union(own, m.prefixClass(addr))
		data := numbers[c]
		if data == nil {
			data = []ruleset.Value{ruleset.Uint32(c.number)}
			numbers[c] = data
		}
		hosts = append(hosts, host{addr, data})
	}
	slices.SortFunc(hosts, func(x, y host) int { return compareAddr(x.addr, y.addr) })
	set := m.hostMap
	set.Elements = make([]ruleset.Element, len(hosts))
	keys := make([]ruleset.Value, len(hosts))
	for i := range hosts {
		keys[i] = addrSlice(&hosts[i].addr)
		set.Elements[i] = ruleset.Element{Key: keys[i : i+1 : i+1], Data: hosts[i].data}
	}
	return &set
}
