// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"cmp"
	"slices"
)

// Normalize sorts the table in place. It sorts sets, flowtables and chains by name, elements of
// named and anonymous sets by key, and devices of flowtables. Rules keep their order.
func (t *Table) Normalize() {
	slices.SortStableFunc(t.Sets, func(a, b *Set) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(t.Chains, func(a, b *Chain) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(t.Flowtables, func(a, b *Flowtable) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range t.Flowtables {
		slices.Sort(f.Devices)
	}
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

// CompareElements orders elements by key, and then by the end of their range. It ignores verdicts
// and data, because two elements of one set never differ only in these.
func CompareElements(a, b Element) int {
	if c := slices.CompareFunc(a.Key, b.Key, compareValues); c != 0 {
		return c
	}
	if c := compareValues(a.Last, b.Last); c != 0 {
		return c
	}
	return slices.CompareFunc(a.Ends, b.Ends, compareValues)
}

// Equal reports whether the tables are the same. The order of objects counts: see Normalize.
func (t *Table) Equal(o *Table) bool {
	if t == nil || o == nil {
		return t == o
	}
	return t.Family == o.Family && t.Name == o.Name &&
		slices.EqualFunc(t.Sets, o.Sets, (*Set).equal) &&
		slices.EqualFunc(t.Flowtables, o.Flowtables, (*Flowtable).equal) &&
		slices.EqualFunc(t.Chains, o.Chains, (*Chain).Equal)
}

// equal reports whether the sets are the same. The order of elements counts, DeleteAfterGrace does
// not.
func (s *Set) equal(o *Set) bool {
	if s == o || s == nil || o == nil {
		return s == o
	}
	return s.sameHead(o) && slices.EqualFunc(s.Elements, o.Elements, Element.Equal)
}

// sameHead reports whether the sets are the same except for their elements.
func (s *Set) sameHead(o *Set) bool {
	return s.Name == o.Name && s.Interval == o.Interval && s.Verdicts == o.Verdicts &&
		s.Counter == o.Counter && s.Timed() == o.Timed() && s.Timeout == o.Timeout && s.GCInterval == o.GCInterval &&
		s.Size == o.Size && s.Comment == o.Comment &&
		slices.Equal(s.Key, o.Key) && slices.Equal(s.Data, o.Data)
}

// Equal reports whether the chains are the same.
func (c *Chain) Equal(o *Chain) bool {
	if c == o || c == nil || o == nil {
		return c == o
	}
	return c.Name == o.Name && c.Hook.Equal(o.Hook) && slices.EqualFunc(c.Rules, o.Rules, Rule.Equal)
}

// Equal reports whether the hooks are the same. Either may be nil.
func (h *Hook) Equal(o *Hook) bool {
	if h == nil || o == nil {
		return h == o
	}
	return h.sameExceptPolicy(o) && h.Policy == o.Policy
}

// sameExceptPolicy reports whether the hooks are the same except for the policy. Either may be nil.
func (h *Hook) sameExceptPolicy(o *Hook) bool {
	if h == nil || o == nil {
		return h == o
	}
	return h.Type == o.Type && h.Point == o.Point && h.Priority == o.Priority
}

// Equal reports whether the rules are the same, including their comments.
func (r Rule) Equal(o Rule) bool {
	return r.Comment == o.Comment &&
		slices.EqualFunc(r.Matches, o.Matches, equalMatch) &&
		slices.EqualFunc(r.Statements, o.Statements, equalStatement)
}

// Equal reports whether all fields of the elements are the same. A range from a value to itself
// equals the value.
func (e Element) Equal(o Element) bool {
	return slices.EqualFunc(e.Key, o.Key, equalValue) && e.sameEnds(o) &&
		equalVerdict(e.Verdict, o.Verdict) && slices.EqualFunc(e.Data, o.Data, equalValue) && e.extra() == o.extra()
}

func (e Element) sameEnds(o Element) bool {
	for i := range e.Key {
		if !equalValue(e.End(i), o.End(i)) {
			return false
		}
	}
	return true
}

// End returns the last value of field i of the key. Unless the field is a range, that is its only
// value.
func (e *Element) End(i int) Value {
	switch {
	case e.Last != nil:
		return e.Last
	case i < len(e.Ends) && e.Ends[i] != nil:
		return e.Ends[i]
	default:
		return e.Key[i]
	}
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
		return ok && a.Field == b.Field && a.Not == b.Not &&
			equalValue(a.Value, b.Value) && equalValue(a.Last, b.Last) && equalValue(a.Mask, b.Mask)
	case Lookup:
		b, ok := b.(Lookup)
		return ok && a.Not == b.Not && a.Set == b.Set && slices.Equal(a.Fields, b.Fields)
	case In:
		b, ok := b.(In)
		return ok && a.Not == b.Not && slices.Equal(a.Fields, b.Fields) &&
			slices.EqualFunc(a.Elements, b.Elements, Element.Equal)
	case Raw:
		b, ok := b.(Raw)
		return ok && a.equal(b)
	default:
		return false
	}
}

func (m Raw) equal(o Raw) bool {
	return m.Text == o.Text && slices.EqualFunc(m.Expressions, o.Expressions, bytes.Equal) &&
		slices.Equal(m.Sets, o.Sets) && slices.Equal(m.Chains, o.Chains)
}

func equalStatement(a, b Statement) bool {
	switch a := a.(type) {
	case VMap:
		b, ok := b.(VMap)
		return ok && a.Map == b.Map && slices.Equal(a.Fields, b.Fields) &&
			slices.EqualFunc(a.Elements, b.Elements, Element.Equal)
	case Log:
		b, ok := b.(Log)
		return ok && a.equal(b)
	case NAT:
		b, ok := b.(NAT)
		return ok && a.Kind == b.Kind && a.Family == b.Family && equalValue(a.Addr, b.Addr) &&
			a.Port == b.Port && a.PortLast == b.PortLast && slices.Equal(a.Fields, b.Fields) && a.Map == b.Map
	case Assign:
		b, ok := b.(Assign)
		return ok && a.Field == b.Field && a.Value == b.Value && a.Mask == b.Mask && a.From == b.From &&
			slices.Equal(a.Fields, b.Fields) && a.Map == b.Map
	case Raw:
		b, ok := b.(Raw)
		return ok && a.equal(b)
	case Verdict, Counter, Limit, Reject, Notrack, FlowAdd:
		return a == b
	default:
		return false
	}
}

func (s Log) equal(o Log) bool {
	if (s.Group == nil) != (o.Group == nil) || s.Group != nil && *s.Group != *o.Group {
		return false
	}
	s.Group, o.Group = nil, nil
	return s == o
}
