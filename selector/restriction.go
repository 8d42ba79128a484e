// SPDX-License-Identifier: Apache-2.0

package selector

import "slices"

// Restriction is a condition of a selector on one label. If the selector matches an object, the
// object satisfies all restrictions of the selector. An index can store a selector under a label
// that an object must have to match. The index then evaluates the selector only for objects with
// this label.
//
// If Present and Absent are both true, or if OneOf is empty but not nil, the selector matches
// nothing.
//
// A Restriction is shared with the Selector. It is safe for concurrent reads and must not be
// changed.
type Restriction struct {
	// Label is the name of the label.
	Label string
	// Present is true if only objects with the label match.
	Present bool
	// Absent is true if only objects without the label match.
	Absent bool
	// OneOf has the values of the label with which an object can match, sorted and distinct. Nil
	// means any value. If OneOf is not nil, Present is true.
	OneOf []string
}

// never reports whether no labels can satisfy the restriction.
func (r Restriction) never() bool {
	return r.Present && (r.Absent || (r.OneOf != nil && len(r.OneOf) == 0))
}

// Restrictions returns the restrictions of single labels, sorted by label, at most one for each
// label. If the selector matches an object, the labels of the object satisfy all restrictions. The
// list can be incomplete: for example, it may be empty for a selector that matches nothing, such as
// `!all()` or an invalid selector.
//
// The first call computes the list. Later calls return the same slice, which the caller must not
// change.
func (s *Selector) Restrictions() []Restriction {
	if s == nil || len(s.tree) == 0 {
		return nil
	}
	s.restrictOnce.Do(func() { s.restrictions = s.tree.restrict(false).list })
	return s.restrictions
}

// restrictions are the restrictions of one subtree.
type restrictions struct {
	list  []Restriction // sorted by label
	never bool          // nothing can match
}

// restrict computes the restrictions of the tree, or those of its negation. It pushes negation down
// to the terms, which turns "&&" into "||" and back.
func (t tree) restrict(negated bool) restrictions {
	n := &t[0]
	negated = negated != n.negated
	if len(t) == 1 {
		return n.restrict(negated)
	}
	return restrictJoined(slices.Collect(t.kids()), negated, (n.op == opAnd) != negated)
}

// restrictJoined merges the operands by halves, so that a long list of operands does not take
// quadratic time.
func restrictJoined(kids []tree, negated, conjunction bool) restrictions {
	if len(kids) == 1 {
		return kids[0].restrict(negated)
	}
	half := len(kids) / 2
	a := restrictJoined(kids[:half], negated, conjunction)
	b := restrictJoined(kids[half:], negated, conjunction)
	if conjunction {
		return a.and(b)
	}
	return a.or(b)
}

// restrict computes the restrictions of a term, or those of its negation. It ignores the negated
// flag of the node.
func (n *node) restrict(negated bool) restrictions {
	if n.label == (handle{}) { // all() or global()
		return restrictions{never: negated}
	}
	r := Restriction{Label: n.label.Value()}
	switch n.op {
	case OpHas:
		r.Present, r.Absent = !negated, negated
	case OpContains, OpStartsWith, OpEndsWith:
		r.Present = !negated
		r.Absent = negated && n.value.Value() == "" // every value contains "", so only an absent label does not match
	case OpEqual, OpIn, OpNotEqual, OpNotIn:
		if negated == (n.op == OpNotEqual || n.op == OpNotIn) {
			r.Present, r.OneOf = true, n.strings()
			if r.OneOf == nil {
				r.OneOf = []string{}
			}
		}
	}
	if !r.Present && !r.Absent {
		return restrictions{}
	}
	return restrictions{list: []Restriction{r}, never: r.never()}
}

// and returns the restrictions of a conjunction of two operands.
func (a restrictions) and(b restrictions) restrictions {
	out := restrictions{never: a.never || b.never}
	switch {
	case len(a.list) == 0:
		out.list = b.list
		return out
	case len(b.list) == 0:
		out.list = a.list
		return out
	}
	out.list = make([]Restriction, 0, len(a.list)+len(b.list))
	mergeLabels(a.list, b.list, func(x, y *Restriction) {
		switch {
		case x == nil:
			out.list = append(out.list, *y)
		case y == nil:
			out.list = append(out.list, *x)
		default:
			r := Restriction{x.Label, x.Present || y.Present, x.Absent || y.Absent, intersect(x.OneOf, y.OneOf)}
			out.list = append(out.list, r)
			out.never = out.never || r.never()
		}
	})
	return out
}

// or returns the restrictions of a disjunction: those of both operands. An operand that never
// matches does not count.
func (a restrictions) or(b restrictions) restrictions {
	switch {
	case b.never:
		return a
	case a.never:
		return b
	}
	var out restrictions
	mergeLabels(a.list, b.list, func(x, y *Restriction) {
		if x == nil || y == nil {
			return
		}
		r := Restriction{x.Label, x.Present && y.Present, x.Absent && y.Absent, nil}
		if x.OneOf != nil && y.OneOf != nil {
			r.OneOf = union(x.OneOf, y.OneOf)
		}
		if r.Present || r.Absent {
			out.list = append(out.list, r)
		}
	})
	return out
}

// intersect returns the values in both lists. nil stands for every value.
func intersect(a, b []string) []string {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	both := make([]string, 0, min(len(a), len(b)))
	for _, v := range a {
		if _, found := slices.BinarySearch(b, v); found {
			both = append(both, v)
		}
	}
	return both
}

func union(a, b []string) []string {
	if slices.Equal(a, b) {
		return a
	}
	either := slices.Concat(a, b)
	slices.Sort(either)
	return slices.Compact(either)
}

// mergeLabels iterates over two sorted lists in order of labels. For each label, it calls visit
// with the restrictions of both lists, or with one and nil.
func mergeLabels(a, b []Restriction, visit func(x, y *Restriction)) {
	for len(a)+len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Label < b[0].Label:
			visit(&a[0], nil)
			a = a[1:]
		case len(a) == 0 || b[0].Label < a[0].Label:
			visit(nil, &b[0])
			b = b[1:]
		default:
			visit(&a[0], &b[0])
			a, b = a[1:], b[1:]
		}
	}
}
