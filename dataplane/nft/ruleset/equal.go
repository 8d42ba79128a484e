// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"cmp"
	"slices"
)

// Normalize sorts the sets and chains by name and the elements of sets, named and
// anonymous, by key, in place. Rules keep their order.
func (t *Table) Normalize() {
	slices.SortStableFunc(t.Sets, func(a, b *Set) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(t.Chains, func(a, b *Chain) int { return cmp.Compare(a.Name, b.Name) })
	for _, s := range t.Sets {
		if !slices.IsSortedFunc(s.Elements, CompareElements) {
			slices.SortStableFunc(s.Elements, CompareElements)
		}
	}
	for _, c := range t.Chains {
		for _, r := range c.Rules {
			r.normalize()
		}
	}
}

// normalize sorts the elements of the rule's anonymous sets.
func (r Rule) normalize() {
	for _, m := range r.Matches {
		if in, ok := m.(In); ok {
			slices.SortStableFunc(in.Elements, CompareElements)
		}
	}
	for _, s := range r.Statements {
		if v, ok := s.(VMap); ok {
			slices.SortStableFunc(v.Elements, CompareElements)
		}
	}
}

// CompareElements orders elements by key, then by the end of their range. Verdicts do
// not count: two elements of one set never differ in the verdict alone.
func CompareElements(a, b Element) int {
	if c := slices.CompareFunc(a.Key, b.Key, compareValues); c != 0 {
		return c
	}
	return compareValues(a.Last, b.Last)
}

// Equal reports whether the tables are the same, order included; see Normalize.
func (t *Table) Equal(o *Table) bool {
	if t == nil || o == nil {
		return t == o
	}
	return t.Family == o.Family && t.Name == o.Name &&
		slices.EqualFunc(t.Sets, o.Sets, (*Set).Equal) &&
		slices.EqualFunc(t.Chains, o.Chains, (*Chain).Equal)
}

// Equal reports whether the sets are the same, the order of elements included.
func (s *Set) Equal(o *Set) bool {
	if s == o || s == nil || o == nil {
		return s == o
	}
	return s.sameHead(o) && slices.EqualFunc(s.Elements, o.Elements, Element.Equal)
}

// sameHead reports whether the sets differ in nothing but their elements.
func (s *Set) sameHead(o *Set) bool {
	return s.Name == o.Name && s.Interval == o.Interval && s.Verdicts == o.Verdicts &&
		slices.Equal(s.Key, o.Key)
}

// Equal reports whether the chains are the same.
func (c *Chain) Equal(o *Chain) bool {
	if c == o || c == nil || o == nil {
		return c == o
	}
	return c.Name == o.Name && c.Hook.equal(o.Hook) && slices.EqualFunc(c.Rules, o.Rules, Rule.Equal)
}

// equal compares hooks, which may be nil.
func (h *Hook) equal(o *Hook) bool {
	if h == nil || o == nil {
		return h == o
	}
	return *h == *o
}

// Equal reports whether the rules are the same, comment included.
func (r Rule) Equal(o Rule) bool {
	return r.Comment == o.Comment &&
		slices.EqualFunc(r.Matches, o.Matches, equalMatch) &&
		slices.EqualFunc(r.Statements, o.Statements, equalStatement)
}

// Equal reports whether the elements are the same, verdict included.
func (e Element) Equal(o Element) bool {
	return slices.EqualFunc(e.Key, o.Key, equalValue) && equalValue(e.Last, o.Last) &&
		equalVerdict(e.Verdict, o.Verdict)
}

func equalValue(a, b Value) bool { return bytes.Equal(a, b) }

func equalVerdict(a, b *Verdict) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func equalMatch(a, b Match) bool {
	switch a := a.(type) {
	case Compare:
		b, ok := b.(Compare)
		return ok && a.Field == b.Field && a.Not == b.Not && equalValue(a.Value, b.Value) && equalValue(a.Last, b.Last)
	case Lookup:
		b, ok := b.(Lookup)
		return ok && a.Not == b.Not && a.Set == b.Set && slices.Equal(a.Fields, b.Fields)
	case In:
		b, ok := b.(In)
		return ok && a.Not == b.Not && slices.Equal(a.Fields, b.Fields) &&
			slices.EqualFunc(a.Elements, b.Elements, Element.Equal)
	default:
		return false
	}
}

func equalStatement(a, b Statement) bool {
	switch a := a.(type) {
	case VMap:
		b, ok := b.(VMap)
		return ok && a.Map == b.Map && slices.Equal(a.Fields, b.Fields) &&
			slices.EqualFunc(a.Elements, b.Elements, Element.Equal)
	case Verdict, Log, Counter:
		return a == b
	default:
		return false
	}
}

// Clone returns a copy that shares nothing with the table.
func (t *Table) Clone() *Table {
	if t == nil {
		return nil
	}
	c := *t
	c.Sets = cloneAll(t.Sets, (*Set).Clone)
	c.Chains = cloneAll(t.Chains, (*Chain).Clone)
	return &c
}

// Clone returns a copy that shares nothing with the set.
func (s *Set) Clone() *Set {
	c := *s
	c.Key = slices.Clone(s.Key)
	c.Elements = cloneAll(s.Elements, Element.clone)
	return &c
}

// Clone returns a copy that shares nothing with the chain.
func (c *Chain) Clone() *Chain {
	n := *c
	if c.Hook != nil {
		hook := *c.Hook
		n.Hook = &hook
	}
	n.Rules = cloneAll(c.Rules, Rule.clone)
	return &n
}

func (r Rule) clone() Rule {
	r.Matches = cloneAll(r.Matches, cloneMatch)
	r.Statements = cloneAll(r.Statements, cloneStatement)
	return r
}

func (e Element) clone() Element {
	e.Key = cloneAll(e.Key, cloneValue)
	e.Last = cloneValue(e.Last)
	if e.Verdict != nil {
		v := *e.Verdict
		e.Verdict = &v
	}
	return e
}

func cloneValue(v Value) Value { return slices.Clone(v) }

func cloneMatch(m Match) Match {
	switch m := m.(type) {
	case Compare:
		m.Value, m.Last = cloneValue(m.Value), cloneValue(m.Last)
		return m
	case Lookup:
		m.Fields = slices.Clone(m.Fields)
		return m
	case In:
		m.Fields, m.Elements = slices.Clone(m.Fields), cloneAll(m.Elements, Element.clone)
		return m
	default:
		return m
	}
}

func cloneStatement(s Statement) Statement {
	if v, ok := s.(VMap); ok {
		v.Fields, v.Elements = slices.Clone(v.Fields), cloneAll(v.Elements, Element.clone)
		return v
	}
	return s
}

// cloneAll clones a slice and each of its items; nil stays nil.
func cloneAll[T any](in []T, clone func(T) T) []T {
	if in == nil {
		return nil
	}
	out := make([]T, len(in))
	for i, v := range in {
		out[i] = clone(v)
	}
	return out
}
