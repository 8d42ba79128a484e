// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"slices"
)

// Clone returns a copy that shares nothing with the table.
func (t *Table) Clone() *Table {
	if t == nil {
		return nil
	}
	c := *t
	c.Sets = cloneAll(t.Sets, (*Set).clone)
	c.Flowtables = cloneAll(t.Flowtables, (*Flowtable).clone)
	c.Chains = cloneAll(t.Chains, (*Chain).Clone)
	return &c
}

func (f *Flowtable) clone() *Flowtable {
	c := *f
	c.Devices = slices.Clone(f.Devices)
	return &c
}

func (s *Set) clone() *Set {
	c := *s
	c.Key, c.Data = slices.Clone(s.Key), slices.Clone(s.Data)
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
	e.Last, e.Ends, e.Data = cloneValue(e.Last), cloneAll(e.Ends, cloneValue), cloneAll(e.Data, cloneValue)
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
		m.Value, m.Last, m.Mask = cloneValue(m.Value), cloneValue(m.Last), cloneValue(m.Mask)
		return m
	case Lookup:
		m.Fields = slices.Clone(m.Fields)
		return m
	case In:
		m.Fields, m.Elements = slices.Clone(m.Fields), cloneAll(m.Elements, Element.clone)
		return m
	case Raw:
		return m.clone()
	default:
		return m
	}
}

func (m Raw) clone() Raw {
	m.Expressions = cloneAll(m.Expressions, bytes.Clone)
	m.Sets, m.Chains = slices.Clone(m.Sets), slices.Clone(m.Chains)
	return m
}

func cloneStatement(s Statement) Statement {
	switch s := s.(type) {
	case VMap:
		s.Fields, s.Elements = slices.Clone(s.Fields), cloneAll(s.Elements, Element.clone)
		return s
	case Log:
		if s.Group != nil {
			group := *s.Group
			s.Group = &group
		}
		return s
	case NAT:
		s.Addr, s.Fields = cloneValue(s.Addr), slices.Clone(s.Fields)
		return s
	case Assign:
		s.Fields = slices.Clone(s.Fields)
		return s
	case Raw:
		return s.clone()
	default:
		return s
	}
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
