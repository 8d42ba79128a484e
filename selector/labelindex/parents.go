// SPDX-License-Identifier: Apache-2.0

package labelindex

import "strings"

// internParent returns the id of a parent, made on first use. A new one must be put to use before
// the call ends.
func (s *store) internParent(name string) uint32 {
	id, hash, ok := s.parents.Find(name)
	if !ok {
		id = s.parents.Add(strings.Clone(name), hash)
	}
	return id
}

// releaseParent forgets a parent that neither exists nor is named by an item.
func (s *store) releaseParent(id uint32) {
	if p := s.parents.At(id); !p.exists && p.items.n == 0 {
		s.parents.Remove(id)
	}
}

// setParent gives a parent its labels. Only where a query mentions a name that changes are its
// items looked at.
func (s *store) setParent(name string, labels map[string]string) {
	id := s.internParent(name)
	p := s.parents.At(id)
	p.exists = true
	if s.equal(s.sets.get(p.labels), labels) {
		return
	}
	s.incoming = s.internAll(s.incoming[:0], labels)
	s.relabelParent(id, p, s.incoming)
}

// dropParent takes the labels of a parent away. The parent itself stays while an item names it.
func (s *store) dropParent(name string) {
	id, _, ok := s.parents.Find(name)
	if !ok {
		return
	}
	p := s.parents.At(id)
	p.exists = false
	s.relabelParent(id, p, nil)
	s.releaseParent(id)
}

// relabelParent replaces the pairs of a parent and evaluates those of its items that this may
// concern.
func (s *store) relabelParent(id uint32, p *parent, pairs []uint32) {
	before := s.sets.get(p.labels)
	s.untouched()
	only(before, pairs, func(pairID uint32) {
		s.takeParent(id, pairID, p.items.n)
		s.touch(pairID)
		s.releasePair(pairID)
	})
	only(pairs, before, func(pairID uint32) {
		s.giveParent(id, pairID, p.items.n)
		s.touch(pairID)
	})
	s.sets.put(&p.labels, pairs)
	if !s.interesting() {
		return
	}
	s.ids = s.sets.appendTo(s.ids[:0], p.items)
	for _, itemID := range s.ids {
		s.revise(itemID)
	}
	s.refile()
}

// inherit counts an item more or less under what it inherits from a parent.
func (s *store) inherit(parentID uint32, delta int) {
	for _, pairID := range s.sets.get(s.parents.At(parentID).labels) {
		s.termOf(pairID).inherited += uint32(delta)
		s.names.At(s.nameOf(pairID)).inherited += uint32(delta)
	}
}
