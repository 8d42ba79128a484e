// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"slices"
	"strings"
)

// Operators of inner nodes, beside the exported ones of terms.
const (
	opNot Op = iota + 100
	opAnd
	opOr
)

// node is one step of a selector's tree: a term, or an operator over other nodes. Nodes are
// never changed once built, so trees may share them.
type node struct {
	op     Op
	label  string
	values []string // sorted and distinct
	kids   []*node
	depth  int // parentheses around the innermost term in canonical form
}

// negate returns !n; two negations cancel out.
func negate(n *node) *node {
	if n.op == opNot {
		return n.kids[0]
	}
	return &node{op: opNot, kids: []*node{n}, depth: n.depth}
}

// combine joins nodes with opAnd or opOr. A single node stays as it is.
func combine(op Op, kids []*node) *node {
	if len(kids) == 1 {
		return kids[0]
	}
	depth := 0
	for _, kid := range kids {
		depth = max(depth, kid.depth)
	}
	return &node{op: op, kids: kids, depth: depth + 1}
}

func (n *node) match(labels Labels) bool {
	switch n.op {
	case OpAll, OpGlobal:
		return true
	case opNot:
		return !n.kids[0].match(labels)
	case opAnd:
		for _, kid := range n.kids {
			if !kid.match(labels) {
				return false
			}
		}
		return true
	case opOr:
		for _, kid := range n.kids {
			if kid.match(labels) {
				return true
			}
		}
		return false
	}
	value, ok := labels.Get(n.label)
	return n.matchValue(value, ok)
}

// matchValue decides a term that looks at one label.
func (n *node) matchValue(value string, ok bool) bool {
	switch n.op {
	case OpHas:
		return ok
	case OpEqual:
		return ok && value == n.values[0]
	case OpNotEqual:
		return !ok || value != n.values[0]
	case OpIn:
		return ok && n.holds(value)
	case OpNotIn:
		return !ok || !n.holds(value)
	case OpContains:
		return ok && strings.Contains(value, n.values[0])
	case OpStartsWith:
		return ok && strings.HasPrefix(value, n.values[0])
	case OpEndsWith:
		return ok && strings.HasSuffix(value, n.values[0])
	}
	return false
}

func (n *node) holds(value string) bool {
	_, found := slices.BinarySearch(n.values, value)
	return found
}

// appendText appends the canonical form.
func (n *node) appendText(b []byte) []byte {
	switch n.op {
	case OpAll, OpGlobal:
		return append(b, n.op.String()...)
	case OpHas:
		return append(append(append(b, "has("...), n.label...), ')')
	case opNot:
		return n.kids[0].appendText(append(b, '!'))
	case opAnd:
		return n.appendKids(b, " && ")
	case opOr:
		return n.appendKids(b, " || ")
	}
	b = append(b, n.label...)
	b = append(b, ' ')
	b = append(b, n.op.String()...)
	b = append(b, ' ')
	if n.op == OpIn || n.op == OpNotIn {
		return n.appendSet(b)
	}
	return appendQuoted(b, n.values[0])
}

func (n *node) appendKids(b []byte, operator string) []byte {
	b = append(b, '(')
	for i, kid := range n.kids {
		if i > 0 {
			b = append(b, operator...)
		}
		b = kid.appendText(b)
	}
	return append(b, ')')
}

func (n *node) appendSet(b []byte) []byte {
	b = append(b, '{')
	for i, value := range n.values {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendQuoted(b, value)
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
