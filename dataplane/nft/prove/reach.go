// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// reader reads the values that the rules of a table mention. Only one goroutine may use it.
type reader struct {
	bases  []string
	chains map[string]*ruleset.Chain
	sets   map[string]*ruleset.Set
	known  map[string]*mentions // the mentions of a set's elements, by the fields of a lookup and the set
}

func newReader(t *ruleset.Table) *reader {
	r := &reader{chains: map[string]*ruleset.Chain{}, sets: map[string]*ruleset.Set{}, known: map[string]*mentions{}}
	for _, c := range t.Chains {
		r.chains[c.Name] = c
		if c.Hook != nil && c.Hook.Type != ruleset.HookNAT {
			r.bases = append(r.bases, c.Name)
		}
	}
	for _, s := range t.Sets {
		r.sets[s.Name] = s
	}
	return r
}

// reading reads the values that rules mention for packets of a given pair of interfaces.
type reading struct {
	*reader
	in, out []ruleset.Value
	seen    map[string]bool
	to      *mentions
}

// mentions returns the values that rules mention which a packet may reach. The packet enters by the
// interface in and leaves by the interface out, of which either may be "". At some hooks a packet
// has only one of them.
func (r *reader) mentions(in, out string) *mentions {
	values := func(name string) []ruleset.Value {
		return []ruleset.Value{ruleset.Ifname(name), ruleset.Ifname("")}
	}
	x := &reading{reader: r, in: values(in), out: values(out), seen: map[string]bool{}, to: newMentions()}
	for _, name := range r.bases {
		x.chain(name)
	}
	return x.to
}

func (x *reading) chain(name string) {
	c := x.chains[name]
	if c == nil || x.seen[name] {
		return
	}
	x.seen[name] = true
	for i := range c.Rules {
		x.rule(&c.Rules[i])
	}
}

// rule adds the values that a rule mentions. It does nothing if the rule's matches on interfaces
// cannot hold.
func (x *reading) rule(r *ruleset.Rule) {
	for _, m := range r.Matches {
		if !x.possible(m) {
			return
		}
	}
	for _, m := range r.Matches {
		switch m := m.(type) {
		case ruleset.Compare:
			last := m.Last
			if last == nil {
				last = m.Value
			}
			for _, to := range x.to.of(m.Field) {
				to.add(number(m.Value), number(last))
			}
		case ruleset.In:
			x.to.union(mentionsOf(m.Fields, m.Elements))
		case ruleset.Lookup:
			x.lookup(m.Fields, m.Set)
		}
	}
	for _, s := range r.Statements {
		switch s := s.(type) {
		case ruleset.Verdict:
			x.chain(s.Chain)
		case ruleset.VMap:
			x.vmap(s)
		case ruleset.Assign:
			x.lookup(s.Fields, s.Map)
		}
	}
}

// vmap adds the values that a verdict map mentions, and those that the chains mention to which it
// leads.
func (x *reading) vmap(m ruleset.VMap) {
	elements := m.Elements
	if m.Map != "" {
		x.lookup(m.Fields, m.Map)
		if s := x.sets[m.Map]; s != nil {
			elements = s.Elements
		}
	} else {
		x.to.union(mentionsOf(m.Fields, elements))
	}
	names, known := x.interfaces(m.Fields)
	for i := range elements {
		e := &elements[i]
		if e.Verdict != nil && (!known || slices.ContainsFunc(names, func(v ruleset.Value) bool {
			return contains(e, v)
		})) {
			x.chain(e.Verdict.Chain)
		}
	}
}

// lookup adds the values that the elements of a named set mention.
func (x *reading) lookup(fields []ruleset.Field, name string) {
	s := x.sets[name]
	if s == nil {
		return
	}
	id := fmt.Sprint(fields, name)
	m := x.known[id]
	if m == nil {
		m = mentionsOf(fields, s.Elements)
		x.known[id] = m
	}
	x.to.union(m)
}

func mentionsOf(fields []ruleset.Field, elements []ruleset.Element) *mentions {
	m := newMentions()
	for part, f := range fields {
		for _, to := range m.of(f) {
			for i := range elements {
				to.add(number(elements[i].Key[part]), number(elements[i].End(part)))
			}
		}
	}
	return m
}

// interfaces returns the values that the first field of a lookup may have, if this field is an
// interface.
func (x *reading) interfaces(fields []ruleset.Field) (names []ruleset.Value, known bool) {
	switch {
	case len(fields) == 0:
	case fields[0] == ruleset.IIFName:
		names = x.in
	case fields[0] == ruleset.OIFName:
		names = x.out
	}
	return names, names != nil
}

// possible reports whether a match can succeed for the interfaces.
func (x *reading) possible(m ruleset.Match) bool {
	holds := func(fields []ruleset.Field, not bool, is func(ruleset.Value) bool) bool {
		names, known := x.interfaces(fields)
		return !known || not && len(fields) > 1 ||
			slices.ContainsFunc(names, func(v ruleset.Value) bool { return is(v) != not })
	}
	in := func(elements []ruleset.Element) func(ruleset.Value) bool {
		return func(v ruleset.Value) bool {
			return slices.ContainsFunc(elements, func(e ruleset.Element) bool { return contains(&e, v) })
		}
	}
	switch m := m.(type) {
	case ruleset.Compare:
		return m.Mask != nil || m.Last != nil ||
			holds([]ruleset.Field{m.Field}, m.Not, func(v ruleset.Value) bool { return bytes.HasPrefix(v, m.Value) })
	case ruleset.In:
		return holds(m.Fields, m.Not, in(m.Elements))
	case ruleset.Lookup:
		s := x.sets[m.Set]
		return s == nil || holds(m.Fields, m.Not, in(s.Elements))
	default:
		return true
	}
}

// contains reports whether the first part of an element contains a value.
func contains(e *ruleset.Element, v ruleset.Value) bool {
	return bytes.Compare(e.Key[0], v) <= 0 && bytes.Compare(v, e.End(0)) <= 0
}
