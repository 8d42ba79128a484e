// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"errors"
	"fmt"
	"iter"
	"slices"
)

// All returns the selector `all()`, which matches everything.
func All() *Selector { return Term{Op: OpAll}.Selector() }

// Global returns the selector `global()`. It matches everything. As a namespace selector, it stands
// for objects that are in no namespace.
func Global() *Selector { return Term{Op: OpGlobal}.Selector() }

// Has returns the selector `has(label)`.
func Has(label string) *Selector { return Term{Op: OpHas, Label: label}.Selector() }

// Equal returns the selector `label == "value"`.
func Equal(label, value string) *Selector { return single(OpEqual, label, value) }

// NotEqual returns the selector `label != "value"`. It matches if the label is absent.
func NotEqual(label, value string) *Selector { return single(OpNotEqual, label, value) }

// Contains returns the selector `label contains "part"`.
func Contains(label, part string) *Selector { return single(OpContains, label, part) }

// StartsWith returns the selector `label starts with "prefix"`.
func StartsWith(label, prefix string) *Selector { return single(OpStartsWith, label, prefix) }

// EndsWith returns the selector `label ends with "suffix"`.
func EndsWith(label, suffix string) *Selector { return single(OpEndsWith, label, suffix) }

// In returns the selector `label in {"value", ...}`. If there are no values, the selector matches
// nothing.
func In(label string, values ...string) *Selector {
	return Term{Op: OpIn, Label: label, Values: values}.Selector()
}

// NotIn returns the selector `label not in {"value", ...}`. It matches if the label is absent. If
// there are no values, it matches everything.
func NotIn(label string, values ...string) *Selector {
	return Term{Op: OpNotIn, Label: label, Values: values}.Selector()
}

func single(op Op, label, value string) *Selector {
	return Term{Op: op, Label: label, Values: []string{value}}.Selector()
}

// Not returns the negation of a selector. The negation of an invalid selector is invalid and
// matches nothing.
func Not(operand *Selector) *Selector {
	if err := operand.Err(); err != nil {
		return invalid(err)
	}
	t := slices.Clone(operand.tree)
	t[0].negated = !t[0].negated
	return newSelector(t)
}

// And returns the selector that matches if all operands match. It returns a single operand
// unchanged. Without operands, it returns all(). If an operand is invalid, the result is invalid.
func And(operands ...*Selector) *Selector {
	if len(operands) == 0 {
		return All()
	}
	return join(opAnd, operands)
}

// Or returns the selector that matches if any operand matches. It returns a single operand
// unchanged. Without operands, it returns !all(), which matches nothing. If an operand is invalid,
// the result is invalid.
func Or(operands ...*Selector) *Selector {
	if len(operands) == 0 {
		return Not(All())
	}
	return join(opOr, operands)
}

func join(op Op, operands []*Selector) *Selector {
	size := 1
	for _, operand := range operands {
		if err := operand.Err(); err != nil {
			return invalid(err)
		}
		size += len(operand.tree)
	}
	if len(operands) == 1 {
		return operands[0]
	}
	t := append(make(tree, 0, size), node{op: op})
	for _, operand := range operands {
		t = append(t, operand.tree...)
	}
	t.measure()
	return newSelector(t)
}

// Terms iterates over the terms of the selector from left to right, without their negations: for
// !has(a), it yields has(a). Each Term is a copy. An invalid selector has no terms.
func (s *Selector) Terms() iter.Seq[Term] {
	return func(yield func(Term) bool) {
		if s == nil {
			return
		}
		for i := range s.tree {
			if n := &s.tree[i]; n.size == 1 && !yield(n.term()) {
				return
			}
		}
	}
}

// MapTerms returns the selector with each term replaced by the result of replace. Operators and
// negations stay. The function replace receives a copy of each term. To keep a term t, replace
// returns t.Selector(). If replace returns nil or an invalid selector, the result of MapTerms is
// invalid.
func (s *Selector) MapTerms(replace func(Term) *Selector) *Selector {
	if err := s.Err(); err != nil {
		return invalid(err)
	}
	t, err := s.tree.appendMapped(make(tree, 0, len(s.tree)), replace)
	if err != nil {
		return invalid(err)
	}
	return newSelector(t)
}

// appendMapped appends the tree with its terms replaced to out.
func (t tree) appendMapped(out tree, replace func(Term) *Selector) (tree, error) {
	n, start := &t[0], len(out)
	if len(t) == 1 {
		by := replace(n.term())
		if by == nil {
			return nil, errors.New("selector: term replaced by nil")
		}
		if err := by.Err(); err != nil {
			return nil, err
		}
		out = append(out, by.tree...)
	} else {
		out = append(out, node{op: n.op})
		for kid := range t.kids() {
			var err error
			if out, err = kid.appendMapped(out, replace); err != nil {
				return nil, err
			}
		}
		out[start:].measure()
	}
	out[start].negated = out[start].negated != n.negated
	return out, nil
}

// PrefixLabels returns the selector with a prefix on every label name: with "pcns.", has(env)
// becomes has(pcns.env). The result is invalid if a name becomes invalid.
func (s *Selector) PrefixLabels(prefix string) *Selector {
	return s.MapTerms(func(t Term) *Selector {
		if t.Op == OpAll || t.Op == OpGlobal {
			return t.Selector()
		}
		t.Label = prefix + t.Label
		sel := t.Selector()
		if err := sel.Err(); err != nil {
			return invalid(fmt.Errorf("%w (after prefix %q)", err, prefix))
		}
		return sel
	})
}
