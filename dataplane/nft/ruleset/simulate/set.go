// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bytes"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// set finds the element that contains a key. It builds its index at the first lookup. A set without
// ranges is indexed by a hash map of its keys. In a set with ranges, some parts of the key are a
// range in no element. These parts are the key of a hash map. Its values are the elements with
// these parts, as boxes, sorted by the first of the other parts.
type set struct {
	sim      *Simulator
	key      []ruleset.Type
	elements []ruleset.Element
	// head and packed are the set, if it belongs to a State. Its elements are unpacked when they
	// are first needed. A set without ranges, verdicts and data does not need that.
	head   *ruleset.Set
	packed ruleset.View

	once    sync.Once
	parts   []part
	first   int // the part by which boxes are sorted; -1 if there are none
	exact   map[string]int32
	boxes   map[string][]box
	targets []verdict // the verdicts of the elements, by number
}

// part is the position of one part of a key in its bytes. Each part is padded to four bytes.
type part struct {
	offset, size int
	ranged       bool // whether the part is a range in some element
}

// box is an element as an inclusive range in every part. Boxes are sorted by one part. The field
// reach is the highest end of this box and all boxes before it, in that part. A backward search can
// stop at a box whose reach is too low.
type box struct {
	element       int32
	lo, hi, reach []byte
}

// find returns the number of the element that contains the key, or -1. The parts of the key are
// padded to four bytes.
func (s *set) find(key []byte) int32 {
	if h := s.head; h != nil && !h.Interval && !h.Verdicts && len(h.Data) == 0 {
		return s.findPacked(key)
	}
	s.once.Do(s.build)
	if s.first < 0 {
		if i, ok := s.exact[string(key)]; ok {
			return i
		}
		return -1
	}
	var hashed [ruleset.MaxKey]byte
	boxes := s.boxes[string(s.exactParts(hashed[:0], key))]
	p := s.parts[s.first]
	x := key[p.offset : p.offset+p.size]
	for i := countBelow(boxes, p, x) - 1; i >= 0 && bytes.Compare(boxes[i].reach, x) >= 0; i-- {
		if boxes[i].holds(s.parts, key) {
			return boxes[i].element
		}
	}
	return -1
}

// findPacked returns 0 if the set of the State has the key, otherwise -1.
func (s *set) findPacked(key []byte) int32 {
	var id [ruleset.MaxKey]byte
	n, at := 0, 0
	for _, t := range s.key {
		n += copy(id[n:], key[at:at+t.Size()])
		at += padded(t.Size())
	}
	if s.packed.Contains(id[:n]) {
		return 0
	}
	return -1
}

// countBelow returns the number of boxes that begin at or below x.
func countBelow(boxes []box, p part, x []byte) int {
	lo, hi := 0, len(boxes)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if bytes.Compare(boxes[mid].lo[p.offset:p.offset+p.size], x) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// exactParts appends the parts of the key that are a range in no element.
func (s *set) exactParts(to, key []byte) []byte {
	for _, p := range s.parts {
		if !p.ranged {
			to = append(to, key[p.offset:p.offset+p.size]...)
		}
	}
	return to
}

func (b *box) holds(parts []part, key []byte) bool {
	for _, p := range parts {
		v, end := key[p.offset:p.offset+p.size], p.offset+p.size
		if p.ranged && (bytes.Compare(b.lo[p.offset:end], v) > 0 || bytes.Compare(v, b.hi[p.offset:end]) > 0) {
			return false
		}
	}
	return true
}

// build indexes the elements.
func (s *set) build() {
	if s.head != nil {
		s.elements = s.packed.Elements()
	}
	s.layout()
	size := 0
	for _, p := range s.parts {
		size = p.offset + padded(p.size)
	}
	for i := range s.elements {
		if v := s.elements[i].Verdict; v != nil {
			if s.targets == nil {
				s.targets = make([]verdict, len(s.elements))
			}
			s.targets[i] = s.sim.verdict(v)
		}
	}
	if s.first < 0 {
		s.buildExact(size)
		return
	}
	s.boxes = map[string][]box{}
	var hashed []byte
	for i, e := range s.elements {
		b := box{element: int32(i), lo: make([]byte, size), hi: make([]byte, size)}
		for j, p := range s.parts {
			copy(b.lo[p.offset:], e.Key[j])
			copy(b.hi[p.offset:], e.Key[j])
			copy(b.hi[p.offset:], lastOf(&e, j))
		}
		hashed = s.exactParts(hashed[:0], b.lo)
		s.boxes[string(hashed)] = append(s.boxes[string(hashed)], b)
	}
	p := s.parts[s.first]
	for _, boxes := range s.boxes {
		slices.SortStableFunc(boxes, func(a, b box) int {
			return bytes.Compare(a.lo[p.offset:p.offset+p.size], b.lo[p.offset:p.offset+p.size])
		})
		var reach []byte
		for i := range boxes {
			if hi := boxes[i].hi[p.offset : p.offset+p.size]; bytes.Compare(hi, reach) > 0 {
				reach = hi
			}
			boxes[i].reach = reach
		}
	}
}

// layout computes the positions of the parts of the key, and marks those that are ranges.
func (s *set) layout() {
	s.first = -1
	offset := 0
	for i, t := range s.key {
		p := part{offset: offset, size: t.Size()}
		p.ranged = slices.ContainsFunc(s.elements, func(e ruleset.Element) bool {
			last := lastOf(&e, i)
			return last != nil && !bytes.Equal(last, e.Key[i])
		})
		if p.ranged && s.first < 0 {
			s.first = i
		}
		s.parts = append(s.parts, p)
		offset += padded(p.size)
	}
}

// buildExact makes the hash map. All its keys share the memory of one string.
func (s *set) buildExact(size int) {
	s.exact = make(map[string]int32, len(s.elements))
	all := make([]byte, size*len(s.elements))
	for i, e := range s.elements {
		for j, p := range s.parts {
			copy(all[i*size+p.offset:], e.Key[j])
		}
	}
	keys := string(all)
	for i := range s.elements {
		s.exact[keys[i*size:(i+1)*size]] = int32(i)
	}
}

// lastOf returns the end of a part that is a range. Otherwise it returns nil.
func lastOf(e *ruleset.Element, part int) ruleset.Value {
	if e.Ends != nil {
		return e.Ends[part]
	}
	return e.Last // for keys with one part
}

// padded returns the space that a part of the given size takes in a concatenation.
func padded(size int) int { return (size + 3) &^ 3 }
