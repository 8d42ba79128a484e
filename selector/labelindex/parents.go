// SPDX-License-Identifier: Apache-2.0

package labelindex

import "strings"

// internParent returns the id of a parent, and creates the parent if there is none. A new one must
// exist or be named by an item before the call ends.
func (s *store) internParent(name string) uint32 {
	id, hash, ok := s.parents.Find(name)
	if !ok {
		id = s.parents.Add(strings.Clone(name), hash)
	}
	return id
}

// releaseParent removes a parent that neither exists nor is named by an item.
func (s *store) releaseParent(id uint32) {
	if p := s.parents.At(id); !p.exists && p.items.n == 0 {
		s.parents.Remove(id)
	}
}

// setParent sets the labels of a parent. The matches of its items are updated only if a query
// mentions a name that changes.
func (s *store) setParent(name string, labels map[string]string) {
	id := s.internParent(name)
	p := s.parents.At(id)
	p.exists = true
	if s.equal(s.sets.get(p.labels), labels) {
		return
	}
	s.incoming = s.internAll(s.incoming[:0], labels)
	s.replaceParentLabels(id, p, s.incoming)
}

// dropParent removes the labels of a parent. The parent keeps its number as long as an item names
// it.
func (s *store) dropParent(name string) {
	id, _, ok := s.parents.Find(name)
	if !ok {
		return
	}
	p := s.parents.At(id)
	p.exists = false
	s.replaceParentLabels(id, p, nil)
	s.releaseParent(id)
}

// replaceParentLabels replaces the pairs of a parent and updates the matches of its items.
func (s *store) replaceParentLabels(id uint32, p *parent, pairs []uint32) {
	before := s.sets.get(p.labels)
	s.resetChanged()
	difference(before, pairs, func(pairID uint32) {
		s.removeParent(id, pairID, p.items.n)
		s.markChanged(pairID)
		s.releasePair(pairID)
	})
	difference(pairs, before, func(pairID uint32) {
		s.addParent(id, pairID, p.items.n)
		s.markChanged(pairID)
	})
	s.sets.put(&p.labels, pairs)
	if !s.sortChanged() {
		return
	}
	s.ids = s.sets.appendTo(s.ids[:0], p.items)
	for _, itemID := range s.ids {
		s.updateMatches(itemID)
	}
	s.refile()
}

// addInherited adds delta to the number of inheriting items in the terms of a parent.
func (s *store) addInherited(parentID uint32, delta int) {
	for _, pairID := range s.sets.get(s.parents.At(parentID).labels) {
		s.termOf(pairID).inherited += uint32(delta)
		s.names.At(s.nameOf(pairID)).inherited += uint32(delta)
	}
}
