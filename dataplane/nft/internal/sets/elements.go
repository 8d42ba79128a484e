// SPDX-License-Identifier: Apache-2.0

package sets

import (
	"bytes"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/internal/reuse"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// ElementSet is a set or map whose elements are added and removed one by one.
type ElementSet struct {
	head     ruleset.Set // without elements
	elements map[string]ruleset.Element
	// changed has the keys of the elements that have changed since the last Flush. The value is the
	// element as it was at that Flush, or nil if it did not exist.
	changed map[string]*ruleset.Element
	// Wanted is true if the table should have the set. The field installed is true if the table had
	// the set after the last Flush.
	Wanted, installed bool
}

// NewElementSet returns a set with elements. The parameter head is the set without elements.
func NewElementSet(head ruleset.Set, elements ...ruleset.Element) *ElementSet {
	s := &ElementSet{head: head, elements: map[string]ruleset.Element{}, changed: map[string]*ruleset.Element{}}
	for _, e := range elements {
		s.Put(e)
	}
	return s
}

// Name returns the name of the set.
func (s *ElementSet) Name() string { return s.head.Name }

// Len returns the number of elements.
func (s *ElementSet) Len() int { return len(s.elements) }

// Changed returns the number of elements that have changed since the last Flush.
func (s *ElementSet) Changed() int { return len(s.changed) }

// ElementKey returns a key that identifies an element in its set.
func ElementKey(e ruleset.Element) string {
	var b []byte
	for _, v := range e.Key {
		b = append(b, v...)
	}
	return string(append(b, e.Last...))
}

// Put adds the element. If there is an element with the same key, it replaces that element.
func (s *ElementSet) Put(e ruleset.Element) {
	k := ElementKey(e)
	old, had := s.elements[k]
	if had && sameElement(old, e) {
		return
	}
	s.remember(k)
	s.elements[k] = e
}

// Remove removes the element with the key, if there is one.
func (s *ElementSet) Remove(key string) {
	if _, had := s.elements[key]; had {
		s.remember(key)
		delete(s.elements, key)
	}
}

// remember saves the state of an element before its first change since the last flush.
func (s *ElementSet) remember(key string) {
	if _, ok := s.changed[key]; ok {
		return
	}
	s.changed[key] = nil
	if old, ok := s.elements[key]; ok {
		s.changed[key] = &old
	}
}

// Replace replaces all elements.
func (s *ElementSet) Replace(elements []ruleset.Element) {
	keep := make(map[string]bool, len(elements))
	for _, e := range elements {
		keep[ElementKey(e)] = true
		s.Put(e)
	}
	for k := range s.elements {
		if !keep[k] {
			s.Remove(k)
		}
	}
}

// sameElement reports whether two elements with the same key have the same verdict and data.
func sameElement(a, b ruleset.Element) bool {
	if (a.Verdict == nil) != (b.Verdict == nil) || a.Verdict != nil && *a.Verdict != *b.Verdict {
		return false
	}
	return slices.EqualFunc(a.Data, b.Data, func(x, y ruleset.Value) bool { return bytes.Equal(x, y) })
}

// Flush appends to the delta the changes since the last Flush.
func (s *ElementSet) Flush(d *ruleset.Delta) {
	s.FlushUnseen(d, func(string) bool { return false })
}

// FlushUnseen is like Flush, but separates elements that need not change at the same moment as the
// rest of the delta. It calls the function unseen() with the key of each element that is added or
// deleted. If unseen() returns true:
//
//   - An added element becomes one of ElementDelta.Early, which are added before the rest of the
//     delta is applied. The function unseen() may return true only if no packet looks up the key
//     until the rest is applied.
//   - A deleted element becomes one of ElementDelta.Late, which are deleted after the rest of the
//     delta is applied. The function unseen() may return true only if no packet looks up the key
//     once the rest is applied.
func (s *ElementSet) FlushUnseen(d *ruleset.Delta, unseen func(key string) bool) {
	switch {
	case !s.Wanted && s.installed:
		d.DeleteSets = append(d.DeleteSets, s.head.Name)
	case s.Wanted && !s.installed:
		d.Sets = append(d.Sets, s.Kernel())
	case s.Wanted && len(s.changed) > 0:
		change := ruleset.ElementDelta{Set: s.head.Name}
		for _, k := range slices.Sorted(maps.Keys(s.changed)) {
			was := s.changed[k]
			now, ok := s.elements[k]
			switch {
			case !ok && was != nil && unseen(k):
				change.Late = append(change.Late, *was)
			case !ok && was != nil:
				change.Delete = append(change.Delete, *was)
			case ok && was == nil && unseen(k):
				change.Early = append(change.Early, now)
			case ok && (was == nil || !sameElement(*was, now)):
				change.Add = append(change.Add, now)
			}
		}
		if len(change.Add)+len(change.Delete)+len(change.Early)+len(change.Late) > 0 {
			d.Elements = append(d.Elements, change)
		}
	}
	s.installed = s.Wanted
	s.changed = reuse.Map(s.changed)
}

// Kernel returns the set with all its elements.
func (s *ElementSet) Kernel() *ruleset.Set {
	set := s.head
	set.Elements = slices.SortedFunc(maps.Values(s.elements), ruleset.CompareElements)
	return &set
}

// Element returns an element with the given values as its key. If v is not nil, the element has the
// verdict v.
func Element(v *ruleset.Verdict, key ...ruleset.Value) ruleset.Element {
	return ruleset.Element{Key: key, Verdict: v}
}
