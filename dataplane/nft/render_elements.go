// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"bytes"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// elementSet is a set or map of our own making, whose elements come and go one by one.
type elementSet struct {
	head     ruleset.Set // without elements
	elements map[string]ruleset.Element
	// changed has the elements that are not as the last flush left them, as they were then; nil where there was none.
	changed map[string]*ruleset.Element
	// wanted says that the table has the set, told that it had it after the last flush.
	wanted, told bool
}

func newElementSet(head ruleset.Set, elements ...ruleset.Element) *elementSet {
	s := &elementSet{head: head, elements: map[string]ruleset.Element{}, changed: map[string]*ruleset.Element{}}
	for _, e := range elements {
		s.put(e)
	}
	return s
}

// elementKey identifies an element in its set.
func elementKey(e ruleset.Element) string {
	var b []byte
	for _, v := range e.Key {
		b = append(b, v...)
	}
	return string(append(b, e.Last...))
}

// put adds the element, or replaces the one of the same key.
func (s *elementSet) put(e ruleset.Element) {
	k := elementKey(e)
	old, had := s.elements[k]
	if had && sameElement(old, e) {
		return
	}
	s.touch(k)
	s.elements[k] = e
}

// remove removes the element of the key, if there is one.
func (s *elementSet) remove(key string) {
	if _, had := s.elements[key]; had {
		s.touch(key)
		delete(s.elements, key)
	}
}

// touch remembers what is about to change.
func (s *elementSet) touch(key string) {
	if _, ok := s.changed[key]; ok {
		return
	}
	s.changed[key] = nil
	if old, ok := s.elements[key]; ok {
		s.changed[key] = &old
	}
}

// replace makes the elements just these.
func (s *elementSet) replace(elements []ruleset.Element) {
	keep := make(map[string]bool, len(elements))
	for _, e := range elements {
		keep[elementKey(e)] = true
		s.put(e)
	}
	for k := range s.elements {
		if !keep[k] {
			s.remove(k)
		}
	}
}

// sameElement reports whether two elements of one key lead to the same.
func sameElement(a, b ruleset.Element) bool {
	if (a.Verdict == nil) != (b.Verdict == nil) || a.Verdict != nil && *a.Verdict != *b.Verdict {
		return false
	}
	return slices.EqualFunc(a.Data, b.Data, func(x, y ruleset.Value) bool { return bytes.Equal(x, y) })
}

// flush adds to the delta what has changed.
func (s *elementSet) flush(d *ruleset.Delta) {
	switch {
	case !s.wanted && s.told:
		d.DeleteSets = append(d.DeleteSets, s.head.Name)
	case s.wanted && !s.told:
		d.Sets = append(d.Sets, s.kernelSet())
	case s.wanted && len(s.changed) > 0:
		change := ruleset.ElementDelta{Set: s.head.Name}
		for _, k := range slices.Sorted(maps.Keys(s.changed)) {
			was := s.changed[k]
			now, ok := s.elements[k]
			switch {
			case !ok && was != nil:
				change.Delete = append(change.Delete, *was)
			case ok && (was == nil || !sameElement(*was, now)):
				change.Add = append(change.Add, now)
			}
		}
		if len(change.Add)+len(change.Delete) > 0 {
			d.Elements = append(d.Elements, change)
		}
	}
	s.told = s.wanted
	s.changed = emptied(s.changed)
}

// kernelSet returns the set with all its elements.
func (s *elementSet) kernelSet() *ruleset.Set {
	set := s.head
	set.Elements = slices.SortedFunc(maps.Values(s.elements), ruleset.CompareElements)
	return &set
}

// element makes an element of one or more values that leads to a verdict, or is just a member where v is nil.
func element(v *ruleset.Verdict, key ...ruleset.Value) ruleset.Element {
	return ruleset.Element{Key: key, Verdict: v}
}
