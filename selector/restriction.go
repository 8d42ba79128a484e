// SPDX-License-Identifier: Apache-2.0

package selector

import "slices"

// Restriction is what a match of a selector implies for one label. An index that files selectors
// by a label they need can pass over most of them without asking Match.
//
// Where Present and Absent are both set, or OneOf is empty but not nil, nothing can match.
//
// It is a plain value that is shared with the Selector: it may be read by several goroutines
// and must not be changed.
type Restriction struct {
	// Label is the name of the label.
	Label string
	// Present says that only objects with the label match.
	Present bool
	// Absent says that only objects without the label match.
	Absent bool
	// OneOf holds the values the label can have in a match, sorted and distinct. It is nil if
	// they are not limited to a known set; otherwise Present is set too.
	OneOf []string
}

// never reports whether no labels can meet the restriction.
func (r Restriction) never() bool {
	return r.Present && (r.Absent || (r.OneOf != nil && len(r.OneOf) == 0))
}

// Restrictions returns what a match implies for single labels, sorted by label, one entry a label.
// Labels without an entry are not restricted as far as can be said: the list is sound, but it need
// not be complete. So a selector can match nothing and not show it here, as `!all()` and invalid
// selectors.
//
// The list is worked out on the first call and then shared: the caller must not change it.
func (s *Selector) Restrictions() []Restriction {
	if s == nil || len(s.tree) == 0 {
		return nil
	}
	s.hintOnce.Do(func() { s.hints = s.tree.restrict(false).list })
	return s.hints
}

// restrictions is what is known of the labels in a match of one subtree.
type restrictions struct {
	list  []Restriction // sorted by label
	never bool          // nothing can match
}

// restrict works out the restrictions of the tree, or of its opposite. Negation moves down
// to the terms on the way, and so turns "&&" into "||" and back.
func (t tree) restrict(negated bool) restrictions {
	n := &t[0]
	negated = negated != n.negated
	if len(t) == 1 {
		return n.restrict(negated)
	}
	return restrictJoined(slices.Collect(t.kids()), negated, (n.op == opAnd) != negated)
}

// restrictJoined halves the list of operands, so that long chains do not take quadratic time.
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

// restrict works out the restriction of a term, or of its opposite. The node's own negation is not
// looked at.
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
		r.Absent = negated && n.value.Value() == "" // which every value contains
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

// and merges what two operands imply where both must match.
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

// or keeps what both operands imply, since either may match. One that cannot match has no say.
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

// intersect returns the values of both lists, nil standing for every value.
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

// mergeLabels walks two lists side by side. It calls visit for every label in order: with the
// restrictions of both, or with one and nil.
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
