// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"errors"
	"time"
)

// Packed is an element as bytes, as the kernel stores it. A View compares it without making an
// Element.
type Packed struct {
	// ID has the values of the key, one after the other, without padding. In an interval set, these
	// values are the starts of ranges, and the inclusive ends of the ranges follow.
	ID []byte
	// Data has the values of the element's data, one after the other, without padding. It is nil if
	// the set is not a map, or is a verdict map.
	Data []byte
	// Kind and Chain are the element's verdict if the set is a verdict map. Otherwise they are
	// zero.
	Kind  VerdictKind
	Chain []byte
	// Comment and Timeout have the same meaning as in Element.
	Comment []byte
	Timeout time.Duration
	// Counter is set if the element has a counter: one that its set gives to every element
	// (Set.Counter), or one that only this element has.
	Counter bool
}

// View gives access to the elements of one set, without a copy. A view of a set of a State is valid
// until the State changes. Until then, several goroutines may use views of the State, and may also
// make them with View and ViewOf.
type View struct{ o *object }

// View returns a view of the set with the given name. The set must exist.
func (s *State) View(set string) View { return View{s.sets[set]} }

// ViewOf returns a view of a set that the State does not have. The set may be an anonymous set of
// one of the State's chains. ViewOf copies its elements.
//
// Errors: those of Validate for the elements.
func (s *State) ViewOf(set *Set) (View, error) {
	p := &planner{State: s, v: &validator{family: s.family, chain: s.Chain}}
	o := p.fill(set)
	return View{o}, errors.Join(p.v.errs...)
}

// Has reports whether the set has exactly this element, with the same data or verdict, comment and
// timeout. An element without a timeout of its own has the timeout of the set.
//
// Has reports false if p has a counter and the set has no Counter, or the other way round. In the
// kernel, an element can differ from its set in this way if another program has added the element.
func (v View) Has(p *Packed) bool {
	o := v.o
	if len(p.ID) != o.store.id || p.Counter != o.set.Counter {
		return false
	}
	rec := o.store.find(p.ID)
	if rec == nil {
		return false
	}
	if o.store.verdicts {
		verdict := &o.verdicts.entries[verdictNumber(rec)].verdict
		if verdict.Kind != p.Kind || verdict.Chain != string(p.Chain) {
			return false
		}
	} else if !bytes.Equal(rec[o.store.id:], p.Data) {
		return false
	}
	if len(o.extras) == 0 && len(p.Comment) == 0 && p.Timeout == 0 {
		return true
	}
	x := o.extras[string(p.ID)]
	return x.comment == string(p.Comment) && v.timeout(x.timeout) == v.timeout(p.Timeout)
}

// Contains reports whether the set has an element with this Packed.ID.
func (v View) Contains(id []byte) bool { return len(id) == v.o.store.id && v.o.store.find(id) != nil }

// Get returns the element with this Packed.ID.
func (v View) Get(id []byte) (e Element, ok bool) {
	if !v.Contains(id) {
		return e, false
	}
	return v.o.element(v.o.store.find(id)), true
}

// Around returns the element whose range contains the value. The set must be an interval set with
// one key field.
func (v View) Around(value Value) (e Element, ok bool) {
	st := v.o.store
	if !st.ordered || len(value) != st.keyLen {
		return e, false
	}
	rec := st.lookup(value)
	if rec == nil {
		return e, false
	}
	return v.o.element(rec), true
}

// Find returns the data and the verdict of the element that has the key, or whose ranges contain
// it. Both key and data are values one after the other, without padding. The caller must not change
// the data. In an interval set with several key fields, Find compares the key with every element.
func (v View) Find(key []byte) (data []byte, verdict Verdict, ok bool) {
	st := v.o.store
	if len(key) != st.keyLen {
		return nil, verdict, false
	}
	rec := st.lookup(key)
	switch {
	case rec == nil:
		return nil, verdict, false
	case st.verdicts:
		return nil, v.o.verdicts.entries[verdictNumber(rec)].verdict, true
	default:
		return rec[st.id:], verdict, true
	}
}

// timeout returns the timeout of an element: its own, or that of the set if it has none.
func (v View) timeout(own time.Duration) time.Duration {
	if own == 0 {
		return v.o.set.Timeout
	}
	return own
}

// Elements returns a copy of the elements, in order.
func (v View) Elements() []Element { return v.o.elements() }

// Chains returns all chains in no particular order. The caller must not change them.
func (s *State) Chains() []*Chain {
	chains := make([]*Chain, 0, len(s.chains))
	for _, o := range s.chains {
		chains = append(chains, o.chain)
	}
	return chains
}

// Sets returns all sets without their elements, in no particular order. The caller must not change
// them.
func (s *State) Sets() []*Set {
	sets := make([]*Set, 0, len(s.sets))
	for _, o := range s.sets {
		sets = append(sets, o.set)
	}
	return sets
}

// Depth returns an upper bound on the number of jumps and gotos on any path from chain to chain.
func (s *State) Depth() int {
	depth := int32(0)
	for _, o := range s.chains {
		depth = max(depth, o.level)
	}
	return int(depth)
}
