// SPDX-License-Identifier: Apache-2.0

package ruleset

import "slices"

// Match is a condition of a rule: Compare, Lookup, In or Raw. The set is closed.
type Match interface{ match() }

// Compare holds if the field equals (or, negated, does not equal) the value, or is in the inclusive
// range from Value to Last if Last is given. With a Mask, only the bits under the mask are
// compared.
//
// A Value of an interface name that is shorter than IfnameSize matches every name that begins with
// it. A Value without Mask of a type of bits (Type.Bits: ct state, ct status, tcp flags) holds if
// the field has any of its bits, and negated, if it has none.
type Compare struct {
	Field Field
	Not   bool
	Value Value
	Last  Value
	// Mask is nil or as long as Value, which has no bit outside it. A range has no Mask.
	Mask Value
}

// Whole reports whether the Mask has all bits.
func (c *Compare) Whole() bool {
	return c.Mask != nil && !slices.ContainsFunc(c.Mask, func(b byte) bool { return b != 0xff })
}

// Lookup holds if the concatenation of the fields is in the named set, or negated, is not.
type Lookup struct {
	Fields []Field
	Not    bool
	Set    string
}

// In holds if the concatenation of the fields is in an anonymous set of these elements.
type In struct {
	Fields   []Field
	Not      bool
	Elements []Element
}

// Raw is a match or statement that this package has no type for, in the kernel's form and in nft
// syntax. The two must mean the same, which is not checked. The simulator refuses rules with a Raw.
type Raw struct {
	// Text is nft syntax. Without it the rule can be programmed, but its String does not load.
	Text string
	// Expressions are the kernel's, in their order: each the payload of one NFTA_LIST_ELEM
	// attribute, that is the attributes NFTA_EXPR_NAME and NFTA_EXPR_DATA. Without them the rule
	// can be printed but not programmed.
	Expressions [][]byte
	// Sets and Chains name the objects that the expressions refer to: these must outlive the rule.
	Sets, Chains []string
}

func (Compare) match() {}
func (Lookup) match()  {}
func (In) match()      {}
func (Raw) match()     {}

// matchFields returns the fields of a match, in order.
func matchFields(m Match) []Field {
	switch m := m.(type) {
	case Compare:
		return []Field{m.Field}
	case Lookup:
		return m.Fields
	case In:
		return m.Fields
	default:
		return nil
	}
}
