// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"slices"
	"strings"
	"unique"
)

// Op is the operator of a term.
type Op uint8

// The operators. The zero Op is none of them.
const (
	OpAll Op = iota + 1
	OpGlobal
	OpHas
	OpEqual
	OpNotEqual
	OpIn
	OpNotIn
	OpContains
	OpStartsWith
	OpEndsWith
)

// String returns the operator in the syntax of selectors.
func (o Op) String() string {
	switch o {
	case OpAll:
		return "all()"
	case OpGlobal:
		return "global()"
	case OpHas:
		return "has"
	case OpEqual:
		return "=="
	case OpNotEqual:
		return "!="
	case OpIn:
		return "in"
	case OpNotIn:
		return "not in"
	case OpContains:
		return "contains"
	case OpStartsWith:
		return "starts with"
	case OpEndsWith:
		return "ends with"
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Term is a leaf of a selector: a condition on one label, or a constant. The methods Terms and
// MapTerms of Selector pass copies of terms.
type Term struct {
	// Op is the operator.
	Op Op
	// Label is the name of the label. It is empty for OpAll and OpGlobal.
	Label string
	// Values has no values for OpAll, OpGlobal and OpHas, any number in any order for OpIn and
	// OpNotIn, and one value for the other operators.
	Values []string
}

// Selector returns the selector that consists of the term alone. If the term breaks a rule of the
// language, the selector is invalid, see Selector.Err.
func (t Term) Selector() *Selector {
	if err := t.check(); err != nil {
		return invalid(err)
	}
	n := node{op: t.Op, size: 1}
	if t.Label != "" {
		n.label = unique.Make(t.Label)
	}
	switch {
	case t.Op == OpIn || t.Op == OpNotIn:
		for _, value := range t.Values {
			n.values = append(n.values, unique.Make(value))
		}
		n.values = sortedSet(n.values)
	case len(t.Values) == 1:
		n.value = unique.Make(t.Values[0])
	}
	return newSelector(tree{n})
}

// term returns the term of a leaf, without its negation.
func (n *node) term() Term {
	t := Term{Op: n.op, Values: n.strings()}
	if n.label != (handle{}) {
		t.Label = n.label.Value()
	}
	return t
}

// strings returns the values of a term, nil if there are none.
func (n *node) strings() []string {
	if n.value != (handle{}) {
		return []string{n.value.Value()}
	}
	var values []string
	for _, value := range n.values {
		values = append(values, value.Value())
	}
	return values
}

// sortedSet sorts the values in place and removes duplicates.
func sortedSet(values []handle) []handle {
	slices.SortFunc(values, func(a, b handle) int { return strings.Compare(a.Value(), b.Value()) })
	return slices.Compact(values)
}

func (t Term) check() error {
	want := 1
	switch t.Op {
	case OpAll, OpGlobal:
		if t.Label != "" {
			return fmt.Errorf("selector: %s takes no label", t.Op)
		}
		want = 0
	case OpHas:
		want = 0
	case OpIn, OpNotIn:
		want = len(t.Values)
	case OpEqual, OpNotEqual, OpContains, OpStartsWith, OpEndsWith:
	default:
		return fmt.Errorf("selector: unknown operator %s", t.Op)
	}
	if len(t.Values) != want {
		return fmt.Errorf("selector: %s takes %d values, not %d", t.Op, want, len(t.Values))
	}
	if t.Op != OpAll && t.Op != OpGlobal {
		if err := checkLabel(t.Label); err != nil {
			return err
		}
	}
	for _, value := range t.Values {
		if strings.Contains(value, `"`) && strings.Contains(value, `'`) {
			return fmt.Errorf("selector: value %q has both kinds of quotes", value)
		}
	}
	return nil
}

func checkLabel(name string) error {
	if name == "" || len(name) > maxLabel {
		return fmt.Errorf("selector: label name of %d bytes, expected 1 to %d", len(name), maxLabel)
	}
	for i := range len(name) {
		if !isLabelByte(name[i]) {
			return fmt.Errorf("selector: label name %q: illegal character at %d", name, i)
		}
	}
	return nil
}

func isLabelByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '_' || c == '.' || c == '/' || c == '-'
}
