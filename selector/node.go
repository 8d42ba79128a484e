// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"iter"
	"slices"
	"strings"
)

// Operators of inner nodes. The operators of terms are exported.
const (
	opAnd Op = iota + 100
	opOr
)

// node is a node of a selector's syntax tree: a term, or an operator with operands. Its strings are
// interned: so a selector does not retain the text that it was parsed from, and compares with
// Compact labels by address.
type node struct {
	op      Op
	negated bool
	size    int32    // number of nodes in the subtree, including this one
	depth   int32    // of parentheses around the innermost term in canonical form
	jump    [2]int32 // of a term: the next term if this one is false, and if it is true; see link
	label   handle   // of a term on a label, otherwise zero
	value   handle   // of a term with one value, otherwise zero
	values  []handle // of OpIn and OpNotIn, sorted and distinct
}

// tree is a selector's syntax tree in one slice: a node, then the subtrees of its operands from
// left to right. The tree of a Selector never changes.
type tree []node

// kids iterates over the operands of the tree's first node.
func (t tree) kids() iter.Seq[tree] {
	return func(yield func(tree) bool) {
		for i := 1; i < len(t); {
			end := i + int(t[i].size)
			if !yield(t[i:end]) {
				return
			}
			i = end
		}
	}
}

// join makes the subtrees from start on the operands of a new node, in place.
func (t tree) join(start int, op Op) tree {
	t = slices.Insert(t, start, node{op: op})
	t[start:].measure()
	return t
}

// measure sets the size and depth of the first node from its operands.
func (t tree) measure() {
	depth := int32(0)
	for kid := range t.kids() {
		depth = max(depth, kid[0].depth)
	}
	t[0].size, t[0].depth = int32(len(t)), depth+1
}

// Jumps that end the evaluation, with the result.
const (
	toFalse = -1
	toTrue  = -2
)

// link sets the jumps of all terms. Evaluation then goes from term to term without visiting
// operators, and skips terms that cannot change the result. The argument at is the index of the
// first node of t in the whole tree. The arguments whenFalse and whenTrue are the jumps after t is
// false and true.
func (t tree) link(at int, whenFalse, whenTrue int32) {
	n := &t[0]
	if n.negated {
		whenFalse, whenTrue = whenTrue, whenFalse
	}
	if len(t) == 1 {
		n.jump = [2]int32{whenFalse, whenTrue}
		return
	}
	for i := 1; i < len(t); {
		end := i + int(t[i].size)
		kidFalse, kidTrue := whenFalse, whenTrue
		if end < len(t) { // the jumps of the last operand are those of t
			next := int32(at+end) + t[end:].firstTerm()
			if n.op == opAnd {
				kidTrue = next
			} else {
				kidFalse = next
			}
		}
		t[i:end].link(at+i, kidFalse, kidTrue)
		i = end
	}
}

// firstTerm returns the index of the first term.
func (t tree) firstTerm() int32 {
	i := int32(0)
	for t[i].size > 1 {
		i++
	}
	return i
}

// match evaluates a linked tree from its first term.
func (t tree) match(first int32, labels Labels) bool {
	if labels == nil {
		labels = Map(nil)
	}
	plain, isMap := labels.(Map) // avoids a call of an interface method
	i := first
	for i >= 0 {
		n := &t[i]
		var value string
		var ok bool
		switch {
		case n.label == (handle{}): // all() or global()
		case isMap:
			value, ok = plain[n.label.Value()]
		default:
			value, ok = labels.Get(n.label.Value())
		}
		i = n.jump[0]
		if n.op == OpEqual {
			if ok && value == n.value.Value() {
				i = n.jump[1]
			}
		} else if ok && n.matchValue(value) || !ok && n.matchAbsent() {
			i = n.jump[1]
		}
	}
	return i == toTrue
}

// matchHandle is matchValue for an interned value. For a small set, it compares handles instead of
// strings.
func (n *node) matchHandle(value handle) bool {
	if (n.op != OpIn && n.op != OpNotIn) || len(n.values) > maxLinear {
		return n.matchValue(value.Value())
	}
	for _, v := range n.values {
		if v == value {
			return n.op == OpIn
		}
	}
	return n.op == OpNotIn
}

// matchAbsent evaluates a term for an object without the label.
func (n *node) matchAbsent() bool {
	switch n.op {
	case OpNotEqual, OpNotIn, OpAll, OpGlobal:
		return true
	}
	return false
}

// matchValue evaluates a term for an object whose label has the value.
func (n *node) matchValue(value string) bool {
	switch n.op {
	case OpHas:
		return true
	case OpEqual:
		return value == n.value.Value()
	case OpNotEqual:
		return value != n.value.Value()
	case OpIn:
		return n.hasValue(value)
	case OpNotIn:
		return !n.hasValue(value)
	case OpContains:
		return strings.Contains(value, n.value.Value())
	case OpStartsWith:
		return strings.HasPrefix(value, n.value.Value())
	case OpEndsWith:
		return strings.HasSuffix(value, n.value.Value())
	}
	return false
}

// maxLinear is the size up to which linear search in a set is faster than binary search.
const maxLinear = 8

func (n *node) hasValue(value string) bool {
	if len(n.values) <= maxLinear {
		for _, v := range n.values {
			if v.Value() == value {
				return true
			}
		}
		return false
	}
	_, found := slices.BinarySearchFunc(n.values, value, func(v handle, s string) int {
		return strings.Compare(v.Value(), s)
	})
	return found
}

// appendText appends the canonical form.
func (t tree) appendText(b []byte) []byte {
	n := &t[0]
	if n.negated {
		b = append(b, '!')
	}
	if len(t) == 1 {
		return n.appendText(b)
	}
	operator := " && "
	if n.op == opOr {
		operator = " || "
	}
	b = append(b, '(')
	for i := 1; i < len(t); {
		if i > 1 {
			b = append(b, operator...)
		}
		end := i + int(t[i].size)
		b = t[i:end].appendText(b)
		i = end
	}
	return append(b, ')')
}

// appendText appends the canonical form of a term, without its negation.
func (n *node) appendText(b []byte) []byte {
	switch n.op {
	case OpAll, OpGlobal:
		return append(b, n.op.String()...)
	case OpHas:
		return append(append(append(b, "has("...), n.label.Value()...), ')')
	}
	b = append(b, n.label.Value()...)
	b = append(b, ' ')
	b = append(b, n.op.String()...)
	b = append(b, ' ')
	if n.op == OpIn || n.op == OpNotIn {
		return n.appendSet(b)
	}
	return appendQuoted(b, n.value.Value())
}

func (n *node) appendSet(b []byte) []byte {
	b = append(b, '{')
	for i, value := range n.values {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendQuoted(b, value.Value())
	}
	return append(b, '}')
}

func appendQuoted(b []byte, value string) []byte {
	quote := byte('"')
	if strings.IndexByte(value, quote) >= 0 {
		quote = '\''
	}
	b = append(b, quote)
	b = append(b, value...)
	return append(b, quote)
}
