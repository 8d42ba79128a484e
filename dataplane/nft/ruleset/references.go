// SPDX-License-Identifier: Apache-2.0

package ruleset

import "iter"

// reference is a set or chain to which a rule or an element refers. It cannot be deleted before the
// rule or element.
type reference struct {
	set  bool
	name string
}

// Sets returns the names of the sets and maps that the rule looks up, in order. A name occurs once
// for each lookup.
func (r *Rule) Sets() iter.Seq[string] { return r.names(true) }

// Chains returns the names of the chains to which the rule leads, in order, except for those in the
// elements of a named map. A name may occur several times.
func (r *Rule) Chains() iter.Seq[string] { return r.names(false) }

// names returns the names of the rule's references: either those to sets or those to chains.
func (r *Rule) names(sets bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		more := true
		r.references(func(ref reference) { more = more && (ref.set != sets || yield(ref.name)) })
	}
}

// references calls yield for each reference of the rule. A name may occur several times.
func (r *Rule) references(yield func(reference)) {
	for _, m := range r.Matches {
		switch m := m.(type) {
		case Lookup:
			yield(reference{true, m.Set})
		case Raw:
			m.references(yield)
		}
	}
	for _, s := range r.Statements {
		switch s := s.(type) {
		case Verdict:
			s.reference(yield)
		case VMap:
			if s.Map != "" {
				yield(reference{true, s.Map})
			}
			for _, e := range s.Elements {
				if e.Verdict != nil {
					e.Verdict.reference(yield)
				}
			}
		case NAT:
			if s.Map != "" {
				yield(reference{true, s.Map})
			}
		case Assign:
			if s.Map != "" {
				yield(reference{true, s.Map})
			}
		case Raw:
			s.references(yield)
		}
	}
}

func (m Raw) references(yield func(reference)) {
	for _, name := range m.Sets {
		yield(reference{true, name})
	}
	for _, name := range m.Chains {
		yield(reference{false, name})
	}
}

func (v Verdict) reference(yield func(reference)) {
	if v.Kind == Jump || v.Kind == Goto {
		yield(reference{false, v.Chain})
	}
}
