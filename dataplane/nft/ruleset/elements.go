// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// fillSets checks the new and changed sets, and computes the changes of their elements.
func (p *planner) fillSets(d *Delta) {
	for _, s := range d.Sets {
		if s == nil {
			continue
		}
		if c := p.setOf[s.Name]; c.new != nil {
			p.v.in("set "+s.Name, func() { p.fillSet(c, s) })
		}
	}
	for i := range d.Elements {
		e := &d.Elements[i]
		if c := p.setOf[e.Set]; c != nil && c.new != nil {
			p.v.in("set "+e.Set, func() {
				c.early, c.late = elementKeys(e.Early), elementKeys(e.Late)
				p.changeElements(c, joined(e.Add, e.Early), joined(e.Delete, e.Late))
			})
		}
	}
}

// joined returns the elements of both lists. It copies only if both have elements.
func joined(a, b []Element) []Element {
	if len(b) == 0 {
		return a
	}
	return slices.Concat(a, b)
}

// elementKeys returns the keys of elements, or nil if there are none.
func elementKeys(list []Element) map[string]bool {
	if len(list) == 0 {
		return nil
	}
	keys := make(map[string]bool, len(list))
	for i := range list {
		keys[elementKey(&list[i])] = true
	}
	return keys
}

func elementKey(e *Element) string { return string(e.appendID(nil, false)) }

// divide returns the elements that packets may look up, and those whose keys are in unseen.
func divide(list []Element, unseen map[string]bool) (visible, rest []Element) {
	if len(unseen) == 0 {
		return list, nil
	}
	for i := range list {
		if unseen[elementKey(&list[i])] {
			rest = append(rest, list[i])
		} else {
			visible = append(visible, list[i])
		}
	}
	return visible, rest
}

// fillSet checks a set with all its elements.
func (p *planner) fillSet(c *setChange, s *Set) {
	if !p.v.checkSet(s) {
		return
	}
	content := p.fill(s)
	if content == nil {
		return
	}
	if c.fresh() {
		c.content, c.opAdd = content, s.Elements
		return
	}
	var missing []Element
	for rec := range c.o.store.records() {
		if content.store.find(rec) == nil {
			missing = append(missing, c.o.element(rec))
		}
	}
	p.changeElements(c, s.Elements, missing)
}

// fill packs the elements of a set. It returns nil after an error.
func (p *planner) fill(s *Set) *object {
	o := &object{name: s.Name, set: s, store: newStore(s)}
	st := o.store
	st.grow(len(s.Elements))
	rec := make([]byte, 0, st.stride)
	before := len(p.v.errs)
	for i := range s.Elements {
		e := &s.Elements[i]
		if !p.v.checkElement(s, e) {
			return nil
		}
		rec = st.append(rec[:0], e)
		if s.Verdicts {
			binary.NativeEndian.PutUint32(rec[len(rec)-verdictLen:], o.verdicts.add(*e.Verdict))
		}
		if x := e.extra(); x != (extra{}) {
			if o.extras == nil {
				o.extras = map[string]extra{}
			}
			o.extras[string(rec[:st.id])] = x
		}
		switch {
		case st.ordered:
			st.slots = append(st.slots, rec...)
			st.n++
		case st.find(rec) != nil:
			p.v.addf("elements %s and %[1]s overlap", elementText(s.Key, *e))
		default:
			st.put(rec)
		}
	}
	if st.ordered {
		sortRecords(st.slots, st.stride)
	}
	if st.ranges() && !p.v.failedSince(before) {
		p.v.checkNeighbours(s, st, st.sorted())
	}
	if p.v.failedSince(before) {
		return nil
	}
	return o
}

// checkNeighbours reports overlaps among sorted records. A record can only overlap later records
// whose first field begins before the first field of the record ends.
func (v *validator) checkNeighbours(s *Set, st *store, recs []byte) {
	first := st.key[0]
	for len(recs) > 0 {
		a := recs[:st.stride]
		recs = recs[st.stride:]
		for rest := recs; len(rest) > 0; rest = rest[st.stride:] {
			b := rest[:st.stride]
			if bytes.Compare(b[:first], a[st.keyLen:st.keyLen+first]) > 0 {
				break
			}
			if st.overlap(a, b) {
				v.overlap(s, st, a, b)
			}
		}
	}
}

func (v *validator) overlap(s *Set, st *store, a, b []byte) {
	v.addf("elements %s and %s overlap", elementText(s.Key, st.element(a)), elementText(s.Key, st.element(b)))
}

// overlap reports whether two records with ends have a key in common. Each of them stands for a
// range in every field.
func (s *store) overlap(a, b []byte) bool {
	at := 0
	for _, n := range s.key {
		end := s.keyLen + at
		if bytes.Compare(a[end:end+n], b[at:at+n]) < 0 || bytes.Compare(b[end:end+n], a[at:at+n]) < 0 {
			return false
		}
		at += n
	}
	return true
}

// changeElements computes the effect of added and removed elements on a set.
func (p *planner) changeElements(c *setChange, add, remove []Element) {
	st, before := c.o.store, len(p.v.errs)
	gone := newIndex(c.new)
	rec := make([]byte, 0, st.stride)
	for i := range remove {
		if !p.v.checkKey(c.new, &remove[i]) {
			return
		}
		rec = remove[i].appendID(rec[:0], st.ranges())
		if old := st.find(rec); old != nil && gone.find(rec) == nil {
			gone.put(old)
		}
	}
	deleted := gone.n
	twice := newIndex(c.new)
	twice.grow(len(add))
	for i := range add {
		if !p.v.checkElement(c.new, &add[i]) {
			return
		}
		rec = st.append(rec[:0], &add[i])
		if len(add) > 1 {
			if twice.find(rec) != nil {
				p.v.addf("elements %s and %[1]s overlap", elementText(c.new.Key, add[i]))
				continue
			}
			twice.put(rec)
		}
		if old := st.find(rec); old != nil && gone.find(rec) == nil {
			if c.sameElement(old, rec, &add[i]) {
				continue
			}
			gone.put(old)
		}
		c.recordAdded(rec, add, i)
	}
	if st.ranges() && !p.v.failedSince(before) {
		p.checkOverlaps(c, gone)
	}
	if n := st.n - gone.n + len(c.adds); c.new.Size != 0 && n > int(c.new.Size) {
		p.v.addf("%d elements, at most %d", n, c.new.Size)
	}
	c.recordRemoved(gone)
	c.opAdd, c.opDelete = c.adds, remove
	if gone.n != len(remove) || deleted != gone.n {
		c.opDelete = nil
		for at := 0; at < len(c.gone); at += st.stride {
			c.opDelete = append(c.opDelete, c.o.element(c.gone[at:at+st.stride]))
		}
	}
}

// sameElement reports whether the element of a record equals e, which has the same key.
func (c *setChange) sameElement(old, rec []byte, e *Element) bool {
	st := c.o.store
	end := st.stride
	if st.verdicts {
		end -= verdictLen
		if c.o.verdicts.entries[verdictNumber(old)].verdict != *e.Verdict {
			return false
		}
	}
	return bytes.Equal(old[st.id:end], rec[st.id:end]) && c.o.extras[string(old[:st.id])] == e.extra()
}

// recordAdded records the element at i as added.
func (c *setChange) recordAdded(rec []byte, add []Element, i int) {
	e := &add[i]
	if c.o.store.verdicts {
		binary.NativeEndian.PutUint32(rec[len(rec)-verdictLen:], uint32(len(c.adds)))
		c.count(*e.Verdict, 1)
	}
	if x := e.extra(); x != (extra{}) {
		if c.extras == nil {
			c.extras = map[string]extra{}
		}
		c.extras[string(rec[:c.o.store.id])] = x
	}
	if len(c.adds) == i { // all elements so far are added, so no copy is needed
		c.adds = add[: i+1 : i+1]
	} else {
		c.adds = append(c.adds, *e)
	}
	c.added = append(c.added, rec...)
}

func (c *setChange) count(v Verdict, by int) {
	if c.tally == nil {
		c.tally = map[Verdict]int{}
	}
	c.tally[v] += by
}

// recordRemoved records the removed elements.
func (c *setChange) recordRemoved(gone *store) {
	c.gone = gone.sorted()
	for at := 0; at < len(c.gone) && gone.verdicts; at += gone.stride {
		c.count(c.o.verdicts.entries[verdictNumber(c.gone[at:at+gone.stride])].verdict, -1)
	}
	if c.o.store.ordered {
		sortRecords(c.added, gone.stride)
	}
}

// checkOverlaps reports overlaps between added elements, and between added elements and those that
// stay.
func (p *planner) checkOverlaps(c *setChange, gone *store) {
	st := c.o.store
	added := slices.Clone(c.added)
	sortRecords(added, st.stride)
	p.v.checkNeighbours(c.new, st, added)
	for ; len(added) > 0; added = added[st.stride:] {
		a, from := added[:st.stride], 0
		if st.ordered {
			from = st.search(a[:st.keyLen])
		}
		for i := from; i < st.count(); i++ {
			if !st.hasRecord(i) {
				continue
			}
			b := st.slot(i)
			if st.ordered && bytes.Compare(b[:st.keyLen], a[st.keyLen:st.id]) > 0 {
				break
			}
			if st.overlap(a, b) && gone.find(b) == nil {
				p.v.overlap(c.new, st, b, a)
			}
		}
	}
}

// fewRecords is the number of records up to which records are inserted one by one. More are merged
// in one pass.
const fewRecords = 8

// commit changes the elements of a set that stays.
func (c *setChange) commit() {
	st, o := c.o.store, c.o
	for at := 0; at < len(c.gone); at += st.stride {
		rec := c.gone[at : at+st.stride]
		if st.verdicts {
			o.verdicts.drop(verdictNumber(rec))
		}
		delete(o.extras, string(rec[:st.id]))
	}
	for at := 0; at < len(c.added) && st.verdicts; at += st.stride {
		rec := c.added[at : at+st.stride]
		number := o.verdicts.add(*c.adds[verdictNumber(rec)].Verdict)
		binary.NativeEndian.PutUint32(rec[st.stride-verdictLen:], number)
	}
	if st.ordered && (len(c.gone)+len(c.added))/st.stride > fewRecords {
		if len(c.gone) > 0 {
			st.removeAll(c.gone)
		}
		if len(c.added) > 0 {
			st.merge(c.added)
		}
	} else {
		for at := 0; at < len(c.gone); at += st.stride {
			st.remove(c.gone[at : at+st.stride])
		}
		st.grow(len(c.added) / st.stride)
		for at := 0; at < len(c.added); at += st.stride {
			st.put(c.added[at : at+st.stride])
		}
	}
	st.shrink()
	if len(c.extras) > 0 && o.extras == nil {
		o.extras = map[string]extra{}
	}
	for id, x := range c.extras {
		o.extras[id] = x
	}
}
